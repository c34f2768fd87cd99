"""The guest: it answers whatever the code in it does, says in plain values what came of it, and says it of nobody else."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from autograder.check import kind
from autograder.sandbox import guest as guest_module
from autograder.sandbox.frames import Foreign
from autograder.sandbox.jail import JailPlan, plan_for
from autograder.sandbox.launcher import Zygote
from autograder.sandbox.proxy import Live, NoAnswer, Program, Remote, RemoteValue

PATIENT = 60.0  # for calls that end: the machine may be busy
SHORT = 1.0  # for calls that never end


class Guest:
    """A student's guest with one main file, `work.py`, and what a check gets of it."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.code = Remote(live, "work")
        live.ask("begin", seed=1)
        live.wake()

    def failure(self, *args: Any, name: str = "f") -> NoAnswer:
        """Why a call gave no value."""
        with pytest.raises(NoAnswer) as caught:
            getattr(self.code, name)(*args)
        return caught.value


def outcome(call: Callable[[], Any]) -> Any:
    """The value of a call, or the kind of failure."""
    try:
        return call()
    except NoAnswer as error:
        return error.kind


Make = Callable[..., Guest]


@pytest.fixture(scope="session")
def plan() -> JailPlan:
    return plan_for(memory_bytes=1 << 30)


@pytest.fixture
def make(zygote: Zygote, plan: JailPlan) -> Iterator[Make]:
    """Guests of this test, all ended after it."""
    made: list[Live] = []

    def start(source: str, seconds: float = PATIENT, **others: str) -> Guest:
        files = {"work": ("work.py", textwrap.dedent(source))}
        files |= {name: (f"{name}.py", textwrap.dedent(text)) for name, text in others.items() if name[:7] != "helper_"}
        helpers = {name[7:]: (f"{name[7:]}.py", text) for name, text in others.items() if name[:7] == "helper_"}
        contract = {"earlier": ["Part", "other"]} if "earlier" in others else {}
        made.append(Live(zygote, Program(files, helpers, contract=contract), plan.fresh, seconds))
        return Guest(made[-1])

    yield start
    for live in made:
        live.close()


@pytest.fixture(scope="module")
def shared(zygote: Zygote, plan: JailPlan) -> Iterator[Guest]:
    """One guest for all tests that only look at what a value comes back as."""
    source = """
    import collections, enum, random
    import numpy as np
    import torch
    from torch import nn

    class Silent(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "always equal"

    class Doubled(torch.Tensor):
        pass

    class Plain:
        def __init__(self): self.size = 3
        def half(self): return self.size / 2

    class Level(enum.IntEnum):
        low = 1

    class Letter(str):
        def __str__(self): return "B"
        def __getitem__(self, item): raise IndexError

    class Endless(list):
        def __iter__(self):
            while True: yield 1

    knot = [1]
    knot.append(knot)
    deep = leaf = {}
    for _ in range(200): leaf["in"] = leaf = {}
    Two = collections.namedtuple("Two", "first second")

    def make(name): return eval(name)
    def same(x): return x
    def keep(*args, **kwargs): return [args, kwargs]
    def describe(x): return [type(x).__name__, str(x.dtype), tuple(x.shape), x.is_contiguous(), x.requires_grad]
    def draws(): return [torch.rand(3), random.random(), float(np.random.rand())]
    def change(x, y):
        x.add_(1)
        return y * 2
    def resize(x): return x.resize_(0)
    """
    live = Live(zygote, Program({"work": ("work.py", textwrap.dedent(source))}, {}), plan.fresh, PATIENT)
    yield Guest(live)
    live.close()


# Values ---------------------------------------------------------------------------------------------------------------

ARRAYS = {
    "torch.tensor(2.5)": np.array(2.5, np.float32),
    "torch.arange(6).reshape(2, 3).T": np.arange(6).reshape(2, 3).T,
    "torch.zeros(0, 3)": np.zeros((0, 3), np.float32),
    "torch.tensor([True, False])": np.array([True, False]),
    "torch.tensor(1, dtype=torch.uint8)": np.array(1, np.uint8),
    "torch.ones(2, dtype=torch.float16)": np.ones(2, np.float16),
    "torch.tensor([float('nan'), float('inf')])": np.array([np.nan, np.inf], np.float32),
    "torch.tensor([1 + 2j]).conj().imag": np.array([-2], np.float32),
    "torch.ones(3, requires_grad=True) * 2": np.full(3, 2, np.float32),
    "nn.Parameter(torch.ones(2))": np.ones(2, np.float32),
    "torch.ones(1).expand(4, 5)": np.ones((4, 5), np.float32),
    "torch.ones(2).as_subclass(Doubled)": np.ones(2, np.float32),
}


@pytest.mark.parametrize("expression", ARRAYS)
def test_tensors_come_back_as_arrays(shared: Guest, expression: str) -> None:
    got, expected = shared.code.make(expression), ARRAYS[expression]
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert np.array_equal(got, expected, equal_nan=expected.dtype.kind == "f")


FOREIGN = {
    "np.ones((2, 3))": "a numpy array (shape (2, 3))",
    "(i for i in range(3))": "a generator",
    "torch.eye(3).to_sparse()": "a tensor of torch.float32 (shape (3, 3), torch.sparse_coo)",
    "torch.ones(2, device='meta')": "a tensor on the device meta (shape (2,))",
    "torch.ones(2, dtype=torch.bfloat16)": "a tensor of torch.bfloat16 (shape (2,), torch.strided)",
    "torch.ones(2, dtype=torch.complex64)": "a tensor of torch.complex64 (shape (2,), torch.strided)",
    "torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.quint8)": "a tensor of torch.quint8",
    "torch.ones(1).expand(1 << 40)": "a tensor too large to be right",
    "torch.ones((1,) * 20)": "a tensor too large to be right",
    "torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])": "a tensor that cannot be read",
    "torch.ones(2).as_subclass(Silent)": "a tensor that cannot be read",
    "torch.nn.LazyLinear(3).weight": "a tensor that cannot be read",
    "1 + 2j": "a complex",
    "b'bytes'": "a bytes",
    "{1, 2}": "a set",
    "range(3)": "a range",
    "np.complex64(1)": "a complex",
    "np.datetime64('2026-01-01')": "a date",
    "np.longdouble(1)": "a longdouble",
    "10 ** 5000": "a number (of 16610 bits)",
    "iter([])": "a list_iterator",
    "torch.float32": "a dtype",
    "torch.Generator()": "a Generator",
}


@pytest.mark.parametrize("expression", FOREIGN)
def test_what_cannot_travel_is_described(shared: Guest, expression: str) -> None:
    got = shared.code.make(expression)
    assert isinstance(got, Foreign)
    assert kind(got).startswith(FOREIGN[expression])
    assert shared.code.same(1) == 1


PLAIN = {
    "None": None,
    "True": True,
    "1 << 100": 1 << 100,
    "0.5": 0.5,
    "'a \\ud800 surrogate'": "a \ud800 surrogate",
    "(1, [2, (3,)])": (1, [2, (3,)]),
    "Two(1, 2)": (1, 2),
    "collections.OrderedDict(a=1)": {"a": 1},
    "{'a': 1, 2: 'b', None: 3, (1, 2): 4, 1 << 64: 5, 1.5: 6}": {"a": 1, 2: "b"},
    "np.float32(0.5)": 0.5,
    "np.int64(3)": 3,
    "np.bool_(True)": True,
    "Level.low": 1,
    "Letter('A')": "A",
    "[]": [],
}


@pytest.mark.parametrize("expression", PLAIN)
def test_plain_values_come_back_as_they_are(shared: Guest, expression: str) -> None:
    got = shared.code.make(expression)
    assert got == PLAIN[expression]
    assert type(got) is type(PLAIN[expression])


def test_nan_comes_back(shared: Guest) -> None:
    assert np.isnan(shared.code.make("float('nan')"))


@pytest.mark.parametrize("name", ["knot", "deep"])
def test_what_has_no_end_is_cut(shared: Guest, name: str) -> None:
    got, levels = shared.code.make(name), 0
    while isinstance(got, (list, dict)):
        got, levels = (got["in"] if isinstance(got, dict) else got[1]), levels + 1
    assert levels == guest_module.DEPTH_CAP
    assert "nested too deep" in kind(got)


@pytest.mark.parametrize("expression", ["'x' * (2 << 20)", "[0.1234567] * 500_000", "[torch.zeros(1 << 20)] * 20"])
def test_more_than_an_answer_holds_is_said_to_be_too_large(shared: Guest, expression: str) -> None:
    error = shared.failure(expression, name="make")
    assert (error.kind, error.form) == ("raised", True)
    assert error.message.startswith("what came back: a message of ")
    assert shared.code.same(1) == 1


def test_objects_stay_and_are_used_by_their_handle(shared: Guest) -> None:
    layer = shared.code.nn.Linear(3, 2)
    assert isinstance(layer, RemoteValue)
    assert layer(np.ones((4, 3), np.float32)).shape == (4, 2)
    assert layer.weight.value().shape == (2, 3)
    row = shared.code.nn.ModuleList([layer, shared.code.nn.ReLU()])
    assert np.array_equal(row[0].weight.value(), layer.weight.value())
    # A class that forgot to be a module is still an object of the hand-in, and its methods can be called.
    plain = shared.code.Plain()
    assert plain.half() == 1.5
    assert "an object" in kind(plain)
    assert repr(plain) == "<Plain in a guest>"


def test_an_object_where_a_list_is_expected_ends_no_grader(shared: Guest) -> None:
    layer = shared.code.nn.Linear(3, 2)
    for use in (list, tuple, set, sum, lambda value: 3 in value, lambda value: [*value]):
        with pytest.raises(TypeError):
            use(layer)
    with pytest.raises(TypeError):
        np.add(*layer)


def test_arguments_arrive_as_tensors(shared: Guest) -> None:
    assert shared.code.describe(np.ones((2, 3), np.float32)) == ["Tensor", "torch.float32", (2, 3), True, False]
    assert shared.code.describe(np.array(True)) == ["Tensor", "torch.bool", (), True, False]
    assert shared.code.describe(np.arange(6.0).reshape(2, 3).T) == ["Tensor", "torch.float64", (3, 2), True, False]
    (values, named) = shared.code.keep(1, None, "x", [np.zeros(2)], (np.ones(1),), mask=None, order=np.arange(2))
    assert values[:3] == (1, None, "x")
    assert isinstance(values[4], tuple) and isinstance(values[3], list)
    assert named["order"].tolist() == [0, 1]


def test_what_a_call_does_to_its_arguments_is_seen(shared: Guest) -> None:
    mine = np.zeros(2)
    value, after = shared.code.change.call_keeping_inputs(mine, np.ones(2))
    assert value.tolist() == [2, 2]
    assert [array.tolist() for array in after] == [[1, 1], [1, 1]]
    assert mine.tolist() == [0, 0]
    _, after = shared.code.resize.call_keeping_inputs(mine)
    assert after[0].shape == (0,)


def test_begin_gives_the_same_random_numbers_and_forgets_objects(shared: Guest) -> None:
    shared.live.ask("begin", seed=5)
    layer, first = shared.code.nn.Linear(1, 1), shared.code.draws()
    shared.live.ask("begin", seed=5)
    shared.code.nn.Linear(1, 1)
    assert repr(shared.code.draws()) == repr(first)
    shared.live.ask("begin", seed=6)
    assert repr(shared.code.draws()) != repr(first)
    with pytest.raises(NoAnswer, match="was lost"):
        layer(np.ones((1, 1), np.float32))


def test_begin_undoes_what_a_check_left_switched(make: Make) -> None:
    guest = make("""
    import torch
    def switch():
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.use_deterministic_algorithms(True)
        torch.set_float32_matmul_precision("medium")
        torch.autograd.set_detect_anomaly(True)
        torch.set_autocast_enabled("cpu", True)
    def modes():
        x = torch.ones(2, 2)
        return [torch.is_grad_enabled(), str(x.dtype), str(x.device), str((x @ x).dtype), torch.is_anomaly_enabled(),
                torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision()]
    """)
    before = guest.code.modes()
    guest.code.switch()
    assert guest.code.modes() != before
    guest.live.ask("begin", seed=1)
    assert guest.code.modes() == before
    assert before[:4] == [True, "torch.float32", "cpu", "torch.float32"]


# Import ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(3)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise BaseException", "BaseException"),
        ("raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})", "Odd"),
        (
            "class M(type(Exception)):\n    __name__ = property(lambda cls: 1 / 0)\nraise M('E', (Exception,), {})",
            "Exc",
        ),
        ("input('name?')", "EOFError"),
        ("unittest.skip('x'); raise unittest.SkipTest", "SkipTest"),
    ],
    ids=lambda text: text[:20],
)
def test_a_file_that_stops_at_import_keeps_what_it_had_defined(make: Make, stop: str, said: str) -> None:
    guest = make(f"import unittest\ndef f(x): return x + 1\n{stop}\ndef g(x): return x\n")
    error = guest.live.loaded["errors"]["work"]
    assert error["type"].startswith(said)
    assert guest.code.f(np.ones(1)).tolist() == [2]
    assert "f" in guest.live.loaded["names"]["work"]
    assert "g" not in guest.live.loaded["names"]["work"]
    if "Odd" in said or "Zero" in said:
        assert (error["file"], error["line"]) == ("work.py", 3)


@pytest.mark.parametrize(
    "trick",
    [
        "import sys; del sys.modules[__name__]",
        "import sys; sys.modules[__name__] = 3",
        "import sys; sys.modules[__name__] = type('M', (), {'f': staticmethod(lambda x: x)})",
        "globals()[5] = 6",
        "globals()['a \\ud800'] = 7",
        "__name__ = 'other'",
        "import builtins; builtins.print = None; import sys; sys.stdout = sys.stderr = None",
        "import sys; sys.meta_path.clear(); sys.path.clear()",
    ],
)
def test_a_module_that_plays_tricks_on_its_import_is_still_answered_for(make: Make, trick: str) -> None:
    guest = make(f"def f(x): return x\n{trick}\n")
    assert guest.live.loaded["names"].keys() == {"work"}
    assert outcome(lambda: guest.code.f(3)) in (3, "raised")
    assert guest.live.forks == 1


def test_what_a_syntax_error_left_is_told_with_its_line(make: Make) -> None:
    guest = make("x = 1\ndef f(:\n")
    error = guest.live.loaded["errors"]["work"]
    assert (error["type"], error["file"], error["line"]) == ("SyntaxError", "work.py", 2)


@pytest.mark.parametrize(
    ("earlier", "why"),
    [
        ("", "earlier.py was not handed in"),
        ("x = 1\n", "earlier.py does not define it"),
        ("1 / 0\nclass Part: pass\n", "earlier.py stopped at ZeroDivisionError"),
    ],
)
def test_a_part_that_is_missing_stops_only_what_needs_it(make: Make, earlier: str, why: str) -> None:
    source = "from earlier import Part, other\ndef f(): return Part(3)\ndef h(): return other(1)\ndef g(): return 2\n"
    guest = make(source, earlier=earlier)
    assert not guest.live.loaded["errors"].get("work")
    assert guest.code.g() == 2
    error = guest.failure()
    assert (error.kind, error.message) == ("missing", f"this needs Part, and {why}")
    assert guest.failure(name="h").message == f"this needs other, and {why}"
    assert "Part" not in guest.live.loaded["names"]["earlier"]


def test_a_name_that_nobody_promised_is_an_import_error(make: Make) -> None:
    guest = make("def f(): return 1\nfrom earlier import invented\n", earlier="")
    assert guest.live.loaded["errors"]["work"]["type"] == "ImportError"
    assert guest.code.f() == 1


def test_own_files_come_first_and_helpers_last(make: Make) -> None:
    guest = make(
        """
        import random, textwrap, rich, mine
        def f(): return [random.__name__, hasattr(random, "Random"), rich.here, mine.here, hasattr(textwrap, "dedent")]
        """,
        rich="here = 'handed in'",
        helper_random="Random = None",
        helper_textwrap="here = 'handed in'",
        helper_mine="here = 'helper'",
    )
    assert guest.code.f() == ["random", True, "handed in", "helper", True]


def test_a_helper_that_stops_is_told_of_too(make: Make) -> None:
    guest = make("from mine import a\ndef f(): return a\n", helper_mine="a = 5\n1 / 0\n")
    assert guest.live.loaded["errors"]["mine"]["line"] == 2
    assert guest.code.f() == 5


def test_a_large_file_in_chinese_travels(make: Make) -> None:
    text = "# " + "读" * 300_000 + "\ndef f(): return '读'\n"
    guest = make(text, helper_mine=text, helper_other=text, helper_third=text)
    assert guest.code.f() == "读"


# Exceptions -----------------------------------------------------------------------------------------------------------

HOSTILE = {
    "its str raises": "def __str__(self): raise ValueError",
    "its str never ends in a text": "def __str__(self): return 5",
    "its str exits": "def __str__(self): raise SystemExit",
    "its str recurses": "def __str__(self): return str(self)",
    "its traceback raises": "__traceback__ = property(lambda self: 1 / 0)",
    "its traceback is a number": "__traceback__ = 5",
    "its class raises": "__class__ = property(lambda self: 1 / 0)",
    "everything of it raises": "def __getattribute__(self, name): raise SystemExit",
    "its text is odd": "def __str__(self): return Odd('odd')",
}


@pytest.mark.parametrize("how", HOSTILE)
def test_an_exception_may_be_as_hostile_as_it_likes(make: Make, how: str) -> None:
    guest = make(f"""
    class Odd(str):
        def __getitem__(self, item): return 5
        def __len__(self): return -1
    class Hostile(Exception):
        {HOSTILE[how]}
    def f(): raise Hostile
    def g(): return 1
    """)
    error = guest.failure()
    assert error.kind == "raised"
    assert error.message.split(":")[0] in ("Hostile", "Exception", "ZeroDivisionError")
    assert guest.code.g() == 1
    assert guest.live.forks == 1


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("raise ValueError('a \\ud800 b')", "ValueError: a \\ud800 b"),
        ("raise KeyError", "KeyError"),
        ("raise type('x' * 5000, (Exception,), {})", "x" * 200),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("assert False, 'on purpose'", "AssertionError: on purpose"),
        ("raise SyntaxError('of its own')", "SyntaxError: of its own"),
        ("raise RuntimeError('x') from OSError('y')", "RuntimeError: x"),
        ("exit()", "SystemExit"),
        ("raise ExceptionGroup('many', [ValueError()])", "ExceptionGroup: many (1 sub-exception)"),
    ],
)
def test_every_exception_is_told_with_its_line(make: Make, statement: str, message: str) -> None:
    if "ExceptionGroup" in statement and not hasattr(__builtins__, "ExceptionGroup"):
        statement, message = "raise LookupError('of old')", "LookupError: of old"
    error = make(f"def f():\n    pass\n    {statement}\n").failure()
    assert error.kind == "raised"
    assert error.message.startswith(message)
    if "exit" not in statement:
        assert (error.file, error.line) == ("work.py", 3)


def test_a_message_without_end_is_cut(make: Make) -> None:
    error = make("def f(): raise ValueError('x' * 10_000_000)\n").failure()
    assert len(error.message) < 3000


def test_a_stub_is_unfinished_and_torch_is_not(make: Make) -> None:
    guest = make("""
    from torch import nn
    def f(): raise NotImplementedError("TODO 1.1: add up")
    def bare(): raise NotImplementedError
    class Block(nn.Module): pass
    """)
    error = guest.failure()
    assert (error.kind, error.message, error.line) == ("unfinished", "TODO 1.1: add up", 3)
    assert guest.failure(name="bare").message == "not written yet"
    block = guest.code.Block()
    with pytest.raises(NoAnswer) as caught:
        block(np.ones(2, np.float32))
    assert caught.value.kind == "raised"
    assert 'missing the required "forward" function' in caught.value.message


def test_the_line_told_is_the_last_one_in_an_own_file(make: Make) -> None:
    guest = make(
        "import torch\nfrom mine import add\ndef f(x):\n    return add(x)\ndef g(x):\n    return torch.einsum('ij', x)\n",
        helper_mine="def add(x):\n\n    return x + 'a'\n",
    )
    assert (guest.failure(1).file, guest.failure(1).line) == ("mine.py", 3)
    assert (guest.failure(np.ones(1), name="g").file, guest.failure(np.ones(1), name="g").line) == ("work.py", 6)


# Prints ---------------------------------------------------------------------------------------------------------------


def test_prints_are_kept_and_cut_with_a_notice(make: Make) -> None:
    guest = make("""
    import sys
    print("at import")
    def f():
        print("a", 1, end="\\n")
        sys.stderr.write("b\\n")
        return 3
    def much():
        line = "x" * 999
        for _ in range(200_000): print(line)
        return 3
    def odd():
        print("\\ud800 \\x00 \\x1b[31m")
        sys.stdout.close()
        print("after", flush=True)
    """)
    assert guest.code.f() == 3
    assert guest.live.take_printed(2000) == "at import\na 1\nb\n"
    assert guest.code.much() == 3
    text = guest.live.take_printed(2000)
    assert text.startswith("xxx")
    assert text.endswith("\n… 199,998,000 more characters were printed and cut here.")
    assert len(text) < 2100
    guest.code.odd()
    assert guest.live.take_printed(2000) == "\\ud800 \x00 \x1b[31m\nafter\n"
    assert guest.live.take_printed(2000) == ""


def test_standard_output_is_one_as_programs_know_it(make: Make) -> None:
    guest = make("""
    import io, logging, sys
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    old = sys.stdout
    sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8")
    print("wrapped 读")
    def f():
        logging.info("logged")
        sys.stdout.buffer.write("bytes 读\\n".encode())
        old.write("old\\n")
        print("new")
        return [sys.stdout.encoding.lower(), sys.stdout.isatty(), sys.stdout.writable(), sys.stdout.closed]
    def g():
        sys.stdout.detach()
        return f()
    """)
    guest.code.f()  # what was printed at import and not flushed comes with the first call
    for name in ("f", "f"):
        guest.live.take_printed(0)
        assert getattr(guest.code, name)() == ["utf-8", False, True, False]
        assert guest.live.take_printed(1000) == "logged\nbytes 读\nold\nnew\n"
    assert guest.failure(name="g").kind == "raised"
    guest.live.take_printed(0)
    guest.code.f()
    assert guest.live.take_printed(1000) == "logged\nbytes 读\nold\nnew\n"


def test_prints_of_many_calls_are_cut_with_a_notice_too(make: Make) -> None:
    guest = make("def f(): print('y' * 9_999)\n")
    for _ in range(5):
        guest.code.f()
    assert guest.live.take_printed(100).endswith("… 49,900 more characters were printed and cut here.")


@pytest.mark.parametrize("statement", ["sys.stdout = None", "sys.stdout = open('/dev/null')", "del sys.stdout"])
def test_a_lost_output_is_there_again_in_the_next_call(make: Make, statement: str) -> None:
    guest = make(f"import sys\ndef f():\n    {statement}\ndef g(): print('here')\n")
    guest.code.f()
    guest.code.g()
    assert guest.live.take_printed(100) == "here\n"


# Modules, gradients, operations ---------------------------------------------------------------------------------------

LAYERS = """
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, size=3):
        super().__init__()
        self.first = nn.Linear(size, 2)
        self.unused = nn.Parameter(torch.ones(2))
        self.parts = nn.ModuleList([nn.Linear(2, 2)])
        self.drop = nn.Dropout(0.5)
    def forward(self, x, y=None):
        return self.drop(self.parts[0](self.first(x)))

class Plain:
    def __call__(self, x): return x

class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 2)
        self.first.table = {"a": nn.Linear(2, 2)}
        self.layers = [nn.Linear(2, 2)]
    def forward(self, x): return self.first(x)

def two(x, n): return x * 2, x.detach(), n
def cut(x): return x.detach() * 2
def rounded(x): return x.round().long()
def nothing(x): return None
def broken(x):
    y = x.exp()
    z = y * 2
    y.add_(1)
    return z.sum() + y
"""


def test_parameters_are_read_and_set_by_name(make: Make) -> None:
    layer = make(LAYERS).code.Layer()
    parameters = layer.parameters()
    assert sorted(parameters) == ["first.bias", "first.weight", "parts.0.bias", "parts.0.weight", "unused"]
    values = {"first.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "unused": np.zeros(2)}
    layer.load(values)
    got = layer.parameters()
    assert np.array_equal(got["first.weight"], values["first.weight"])
    assert got["unused"].dtype == np.float64  # the probe's dtype decides
    assert np.array_equal(got["first.bias"], parameters["first.bias"])
    assert layer.parts[0].weight.value().shape == (2, 2)
    x = np.ones((1, 3), np.float32)
    assert np.array_equal(layer.eval()(x), layer(x))
    assert any(not np.array_equal(layer.train()(x), layer(x)) for _ in range(20))


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (
            lambda c: c.Layer().load({"q.weight": np.ones(2)}),
            "Layer has no parameter q.weight; it has first.bias, first",
        ),
        (
            lambda c: c.Listed().load({"layers.0.weight": np.ones(2)}),
            "Listed has no parameter layers.0.weight: layers is a plain list, in which PyTorch finds no parameters; "
            "use nn.ModuleList",
        ),
        (
            lambda c: gradients(c.Listed(), ["first.table.a.weight"]),
            "Listed has no parameter first.table.a.weight: table is a plain dict, in which PyTorch finds no parameters; "
            "use nn.ModuleDict",
        ),
        (lambda c: c.Layer().load({"unused": np.ones(3)}), "parameter unused has shape (2,), expected (3,)"),
        (lambda c: c.Layer().load({"unused": np.ones(())}), "parameter unused has shape (2,), expected ()"),
        (lambda c: c.Plain().parameters(), "Plain is not an nn.Module, so it has no parameters"),
        (lambda c: c.two.parameters(), "function is not an nn.Module, so it has no parameters"),
        (lambda c: c.Plain().eval(), "Plain is not an nn.Module, so it has no parameters"),
        (lambda c: gradients(c.Layer(), ["q.bias"]), "Layer has no parameter q.bias; it has first.bias, first"),
        (lambda c: gradients(c.nothing, [0]), "the output has no gradient: it was detached from the graph on the way"),
        (lambda c: gradients(c.nothing, [0], output=0), "a NoneType came back, expected 1 values at least"),
        (lambda c: gradients(c.two, [0], 1, output=5), "a tuple came back, expected 6 values at least"),
        (lambda c: gradients(c.two, [0], 1, output=1), "the output has no gradient: it was detached from the graph"),
        (lambda c: gradients(c.two, [0], 1, output=2), "the output has no gradient: it was detached from the graph"),
        (lambda c: gradients(c.cut, [0]), "the output has no gradient: it was detached from the graph on the way"),
        (lambda c: gradients(c.rounded, [0]), "the output has no gradient: it was detached from the graph on the way"),
    ],
)
def test_what_has_another_form_is_told_in_a_sentence(
    make: Make, ask: Callable[[Remote], object], sentence: str
) -> None:
    with pytest.raises(NoAnswer) as caught:
        ask(make(LAYERS).code)
    assert caught.value.message.startswith(sentence)
    assert (caught.value.kind, caught.value.form) == ("raised", True)


def gradients(target: RemoteValue, wrt: list[int | str], *rest: Any, output: int | None = None) -> Any:
    x = np.ones((1, 3), np.float32)
    return target.gradients(x, *rest, wrt=wrt, cotangent=np.float32(1) * np.ones(()), output=output)


def test_gradients_of_inputs_and_parameters(make: Make) -> None:
    guest = make(LAYERS)
    layer = guest.code.Layer().eval()
    x = np.array([[1, 2, 3]], np.float32)
    found = layer.gradients(x, x, wrt=[0, 1, "first.bias", "unused"], cotangent=np.array([[1, 10]], np.float32))
    parameters = layer.parameters()
    back = np.array([[1, 10]], np.float32) @ parameters["parts.0.weight"]
    assert np.allclose(found["first.bias"], back[0], atol=1e-6)
    assert np.allclose(found[0], back @ parameters["first.weight"], atol=1e-5)
    assert found[1] is None and found["unused"] is None
    picked = guest.code.two.gradients(x, 1, wrt=[0], cotangent=np.array(3, np.float32), output=0)
    assert picked[0].tolist() == [[6, 6, 6]]


def test_a_cotangent_of_another_shape_is_told(make: Make) -> None:
    layer = make(LAYERS).code.Layer()
    with pytest.raises(NoAnswer, match=r"the output has shape \(1, 2\), expected \(2, 2\)"):
        layer.gradients(np.ones((1, 3), np.float32), wrt=[0], cotangent=np.ones((2, 2), np.float32))


def test_a_gradient_that_torch_refuses_is_an_exception_of_the_code(make: Make) -> None:
    guest = make(LAYERS)
    with pytest.raises(NoAnswer, match="RuntimeError: one of the variables needed") as caught:
        gradients(guest.code.broken, [0])
    assert not caught.value.form
    with pytest.raises(NoAnswer, match="RuntimeError: only Tensors of floating point"):
        guest.code.two.gradients(np.arange(3), 1, wrt=[0], cotangent=np.ones(3), output=0)


def test_operations_are_counted_and_the_count_ends_with_the_call(make: Make) -> None:
    guest = make("""
    import torch
    def f(x):
        for i in range(len(x)): x = x + i
        return x.softmax(-1)
    def g(x):
        torch.mm(x, x)
        raise ValueError
    """)
    counts = [guest.code.f.operations(np.ones((k, 2), np.float32)) for k in (3, 5)]
    assert [count["aten.add.Tensor"] for count in counts] == [3, 5]
    assert all(count["aten._softmax.default"] == 1 for count in counts)
    with pytest.raises(NoAnswer, match="ValueError"):
        guest.code.g.operations(np.ones((2, 2), np.float32))
    assert guest.code.f(np.ones((1, 2), np.float32)).shape == (1, 2)


# Code that works against it -------------------------------------------------------------------------------------------

STOLEN = """
import os, socket, sys, threading, time, json
import torch
from autograder.sandbox import frames, guest
frame = sys._getframe()
while not isinstance(frame.f_locals.get("self"), guest.Guest): frame = frame.f_back
me = frame.f_locals["self"]
def g(x): return x
"""


@pytest.mark.parametrize(
    "trick",
    [
        "frames.send = frames.receive = frames.pack = frames.send_packed = None",
        "guest.Guest.answer = guest.Guest.serve = None",
        "me.verbs.clear()",
        "me.verbs = me.printed = me.sources = me.objects = None",
        "import builtins; builtins.isinstance = builtins.len = builtins.type = None",
        "torch.manual_seed = torch.from_numpy = torch.no_grad = torch.Tensor = None",
        "torch.Tensor.detach = lambda self: 'nothing'",
        "sys.modules.clear()",
        "msgpack.packb = msgpack.unpackb = lambda *a, **k: b'\\x90'",
        "os.close(me.sock.fileno())",
        "me.sock.sendall(b'garbage' * 10)",
        "me.sock.shutdown(socket.SHUT_RDWR)",
        "me.sock.settimeout(0.000001)",
        "frames.send(me.sock, {'id': me.working_on, 'value': {'errors': 5, 'names': {'work': [3]}}})",
        "frames.send(me.sock, {'id': me.working_on, 'value': None})",
        "frames.send(me.sock, {'id': me.working_on, 'error': {'type': [], 'message': 5}})",
        "frames.send(me.sock, {'id': me.working_on, 'error': 'none', 'printed': [[[]]]})",
        "frames.send(me.sock, {'id': me.working_on, 'at': ['work.py', float('inf')]})",
        "frames.send(me.sock, {'id': me.working_on, 'at': 3})",
        "frames.send(me.sock, {'id': True, 'value': 3})",
        "[frames.send(me.sock, {'id': n, 'value': 4}) for n in range(9)]",
        "frames.send(me.sock, [me.working_on])",
        "me.sock.sendall(frames.PREFIX.pack(frames.MAGIC, 1 << 20, 64 << 20)); os._exit(0)",
        "os._exit(0)",
        "os._exit(77)",
        "os.abort()",
        "import ctypes; ctypes.string_at(0)",
        "import signal; signal.raise_signal(signal.SIGKILL)",
        "sys.setrecursionlimit(10**9); type('R', (), {'__repr__': repr})().__repr__()",
        "x = bytearray(1 << 40)",
    ],
)
@pytest.mark.parametrize("when", ["at import", "in a call"])
def test_no_trick_of_the_code_is_more_than_no_answer(make: Make, trick: str, when: str) -> None:
    source = STOLEN + (
        f"{trick}\ndef f(x): return x\n" if when == "at import" else f"def f(x):\n    {trick}\n    return x\n"
    )
    failures = ("raised", "time", "memory", "died", "malformed")
    guest = outcome(lambda: make(source, seconds=SHORT))
    if not isinstance(guest, Guest):
        assert guest in failures
        return
    outcome(lambda: guest.code.f(3))
    assert outcome(lambda: guest.live.ask("begin", seed=2)) in (None, *failures)
    assert outcome(lambda: guest.code.g(4)) in (4, *failures)


@pytest.mark.parametrize(
    ("statement", "kind_of_end", "said"),
    [
        ("os._exit(0)", "died", "it ended the whole process: it exited with status 0"),
        ("os._exit(3)", "died", "it ended the whole process: it exited with status 3"),
        ("ctypes.string_at(0)", "died", "it ended the whole process: it crashed (SIGSEGV)"),
        ("os.abort()", "died", "it ended the whole process: it crashed (SIGABRT)"),
        ("os.kill(os.getpid(), 9)", "died", "the system killed it, most likely because the machine ran out of memory"),
        ("os.close(sock()); time.sleep(100)", "died", "it had closed its connection to the grader"),
        ("sys.setrecursionlimit(1 << 30); repr(Mirror())", "died", "it crashed (SIGSEGV)"),
        ("f()", "raised", "RecursionError: maximum recursion depth exceeded"),
        (
            "x = []\n    while True: x.append(bytearray(60_000))",
            "memory",
            "more memory than the 1,024 MB that a submission may use",
        ),
        ("x = b'.' * (1 << 40)", "memory", "more memory than the 1,024 MB that a submission may use"),
        ("torch.zeros(1 << 40)", "memory", "more memory than the 1,024 MB that a submission may use"),
        ("np.zeros(1 << 40)", "memory", "more memory than the 1,024 MB that a submission may use"),
    ],
)
def test_each_end_is_told_for_what_it_was(make: Make, statement: str, kind_of_end: str, said: str) -> None:
    guest = make(f"""
import ctypes, os, socket, sys, time
import numpy as np
import torch
class Mirror:
    def __repr__(self): return repr(self)
def sock(): return next(n for n in range(3, 64) if os.path.exists(f"/proc/self/fd/{{n}}"))
def f():
    {statement}
def g(): return 1
""")
    error = guest.failure()
    assert error.kind == kind_of_end
    assert said in error.message
    assert guest.code.g() == 1


LOOPS = {
    "a plain loop": "while True: pass",
    "a loop that swallows everything": "while True:\n        try: raise SystemExit\n        except BaseException: continue",
    "a loop in another definition": "helper()",
}


@pytest.mark.parametrize("how", LOOPS)
def test_a_call_that_never_ends_is_stopped_and_told_with_its_line(make: Make, how: str) -> None:
    guest = make(
        f"import time\ndef helper():\n    while True: pass\ndef f():\n    {LOOPS[how]}\ndef g(): return 1\n", SHORT
    )
    error = guest.failure()
    assert error.kind == "time"
    assert error.message == "it ran longer than 1 s and was stopped: look for a loop that never ends"
    assert error.file == "work.py"
    assert error.line == 3 if "helper" in LOOPS[how] else 5 <= error.line <= 7
    assert guest.code.g() == 1


@pytest.mark.parametrize(
    "away",
    [
        "signal.signal(signal.SIGALRM, signal.SIG_IGN)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 60))",
        "[signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)]",
        "signal.signal(signal.SIGALRM, lambda *a: 1 / 0)",
    ],
)
def test_code_that_takes_the_timer_away_is_stopped_all_the_same(make: Make, away: str) -> None:
    guest = make(f"import signal\ndef f():\n    {away}\n    while True: pass\ndef g(): return 1\n", SHORT)
    error = guest.failure()
    assert error.kind in ("time", "raised" if "1 / 0" in away else "time")
    assert guest.code.g() == 1


def test_a_timer_that_was_taken_away_is_back_in_the_next_call(make: Make) -> None:
    guest = make(
        "import signal\ndef f(): signal.signal(signal.SIGALRM, signal.SIG_DFL)\ndef g():\n    while True: pass\n", SHORT
    )
    guest.code.f()
    error = guest.failure(name="g")
    assert (error.kind, error.line) == ("time", 4)


def test_threads_that_are_left_cost_no_later_check(make: Make) -> None:
    guest = make(
        STOLEN
        + """
def noise():
    while True:
        try: me.sock.sendall(b"noise")
        except OSError: return
def start(kind):
    if kind == "noise": target = noise
    if kind == "exit": target = lambda: (time.sleep(0.05), os._exit(0))
    if kind == "idle": target = lambda: time.sleep(1000)
    if kind == "forge": target = lambda: [frames.send(me.sock, {"id": n, "value": {"value": 9}}) for n in range(9)]
    threading.Thread(target=target, daemon=kind != "idle").start()
    time.sleep(0.2 if kind == "exit" else 0)
"""
    )
    for kind_of_thread in ("idle", "noise", "forge", "exit"):
        assert outcome(lambda kind=kind_of_thread: guest.code.start(kind)) in (None, "malformed", "died")
        guest.live.ask("begin", seed=1)
        if kind_of_thread != "noise":  # which may have got in between the two
            assert guest.code.g(5) == 5


def test_what_deletes_itself_badly_costs_no_later_check(make: Make) -> None:
    guest = make(
        """
        import os
        class Bad:
            def __call__(self): return 1
            def __del__(self): os._exit(1)
        class Loud(Bad):
            def __del__(self): raise ValueError("in __del__")
        def g(x): return x
        """
    )
    guest.code.Loud()
    guest.live.ask("begin", seed=1)
    assert guest.code.g(1) == 1
    assert guest.live.forks == 1
    guest.code.Bad()
    guest.live.ask("begin", seed=1)
    assert guest.code.g(1) == 1
    assert guest.live.forks == 2
