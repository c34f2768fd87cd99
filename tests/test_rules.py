"""Rules on how a part is written: what of the file belongs to it, and what a count of operations says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from conftest import ROOT

from autograder import lab as labs
from autograder import rules
from autograder.check import NeedsReview, RuleBroken
from autograder.result import Result, Status
from autograder.sandbox.launcher import Zygote
from autograder.session import Session
from autograder.source import Source
from autograder.submission import Submission

LAYERS = """
def helper(x):
    return [row for row in x]

class Base:
    def forward(self, x):
        for row in x:
            pass

class Inherits(Base):
    def other(self, x):
        return x

class Layer(Base):
    def load(self, x):
        for row in x:
            pass
    def forward(self, x):
        return x

class Calls:
    def forward(self, x):
        return helper(x)

class Twice:
    def forward(self, x):
        return helper(x)
    def forward(self, x):
        return x
"""


def source(text: str) -> Source:
    return Source.read(text.encode(), "multihead.py")


def counting(**by_size: dict[str, int]) -> Callable[[int], dict[str, int]]:
    return lambda size: by_size["short" if size == 4 else "long"]


STEADY = counting(short={"aten.bmm.default": 2}, long={"aten.bmm.default": 2})


@pytest.mark.parametrize(
    ("qualname", "lines"),
    [
        ("Layer", [7, 16]),
        ("Layer.forward", []),
        ("Layer.load", [16]),
        ("Calls.forward", [3]),
        ("Inherits.forward", [7]),
        ("Inherits.missing", []),
        ("Twice.forward", []),
        ("nobody", []),
        ("nobody.forward", []),
    ],
)
def test_a_rule_looks_at_one_method_and_what_it_calls(qualname: str, lines: list[int]) -> None:
    assert [loop.line for loop in rules.Code(source(LAYERS), qualname).loops] == lines


def test_bases_that_lead_in_a_circle_end() -> None:
    text = "class A(B): pass\nclass B(A): pass\n"
    assert rules.Code(source(text), "A.forward").loops == []


def test_a_loop_of_another_method_breaks_no_rule() -> None:
    rules.no_loop(source(LAYERS), "Layer.forward", STEADY)
    with pytest.raises(NeedsReview, match=r"multihead.py:16 shows a for loop"):
        rules.no_loop(source(LAYERS), "Layer.load", STEADY)


def test_a_growing_count_names_the_size_that_grew() -> None:
    growing = counting(short={"aten.bmm.default": 4}, long={"aten.bmm.default": 9})
    with pytest.raises(RuleBroken, match=r"4 torch operations at H = 4, 9 at H = 9") as broken:
        rules.no_loop(source(LAYERS), "Layer.load", growing, letter="H")
    assert broken.value.line == 16
    with pytest.raises(RuleBroken, match="The work grows as a loop does"):
        rules.no_loop(source(LAYERS), "Layer.forward", growing)


def test_views_are_no_work_unless_a_loop_makes_them() -> None:
    """`tensor_split` dispatches one slice for each part."""
    views = counting(short={"aten.slice.Tensor": 4}, long={"aten.slice.Tensor": 9})
    rules.no_loop(source(LAYERS), "Layer.forward", views)
    with pytest.raises(RuleBroken, match="There is a comprehension"):
        rules.no_loop(source(LAYERS), "Calls.forward", views)


# Functions of sizes only: numbers, and one tensor at the end.
SIZES = """
import math, torch
def slow(length, width):
    rows = []
    for place in range(length):
        rows.append([math.sin(place / 10 ** feature) for feature in range(width)])
    return torch.tensor(rows)
def thrice(length, width):
    return [[[a + b + c for a in range(2 * length)] for b in range(width)] for c in range(length)]
def fast(length, width):
    return torch.sin(torch.arange(length)[:, None] / 10 ** torch.arange(width))
def hidden(length, width):
    return torch.tensor(list(map(math.sin, range(length))))
def away(length, width):
    return torch.tensor(torch.arange(length).numpy())
"""
LAID_OUT = counting(short={"aten.lift_fresh.default": 1}, long={"aten.lift_fresh.default": 1})


def test_without_a_count_a_loop_that_runs_nothing_of_torch_is_a_loop() -> None:
    code = source(SIZES)
    with pytest.raises(NeedsReview, match=f"multihead.py:6 shows a comprehension, {rules.DOES_NOT_GROW}"):
        rules.loops_over_two_axes(code, "slow", LAID_OUT)
    rules.loops_over_two_axes(code, "slow", None)
    for name in ("fast", "away"):
        with pytest.raises(RuleBroken, match="There is no loop"):
            rules.loops_over_two_axes(code, name, None)
    with pytest.raises(RuleBroken, match="3 loops stand inside each other"):
        rules.loops_over_two_axes(code, "thrice", None)


def test_without_a_count_every_loop_breaks_the_rule_against_loops() -> None:
    code = source(SIZES)
    with pytest.raises(NeedsReview, match=rules.DOES_NOT_GROW):
        rules.no_loop(code, "slow", LAID_OUT)
    with pytest.raises(RuleBroken, match="There is a for loop in a part that must have no loop") as broken:
        rules.no_loop(code, "slow", None)
    assert broken.value.line == 5
    with pytest.raises(RuleBroken, match=r"hidden loop \(map\)"):
        rules.no_loop(code, "hidden", None)
    with pytest.raises(RuleBroken, match="`numpy` leaves torch"):
        rules.no_loop(code, "away", None)
    rules.no_loop(code, "fast", None)


def test_without_a_count_staff_still_look_at_what_cannot_be_read() -> None:
    loops = "def f(n):\n    return [i for i in range(n)]\n"
    for rule, text in ((rules.no_loop, "def f(n):\n    return n\n"), (rules.loops_over_two_axes, loops)):
        rule(source(text), "f", None)
        with pytest.raises(NeedsReview, match="can put another function in the place"):
            rule(source(f"import gc\n{text}"), "f", None)


# Disguises of a loop ---------------------------------------------------------------------------------------------------

OPENING = """
import functools, importlib, itertools, operator, sys
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

def one(q, k, v):
    return (q @ k.T * q.shape[-1] ** -0.5).softmax(-1) @ v

def weights(q, k):
    return (q @ k.transpose(1, 2) * q.shape[-1] ** -0.5).softmax(-1)
"""
# What stands at module level, and the line that computes y; the weights are honest each time.
LOOPS = {
    "comprehension": ("", "torch.stack([one(*sequence) for sequence in zip(query, key, value)])"),
    "for": ("", "slowly(query, key, value)"),
    "while": ("", "whiling(query, key, value)"),
    "map": ("", "torch.stack(list(map(one, query, key, value)))"),
    "map by another name": ("go = map", "torch.stack(list(go(one, query, key, value)))"),
    "starmap": ("", "torch.stack(list(itertools.starmap(one, zip(query, key, value))))"),
    "partial": ("go = functools.partial(map, one)", "torch.stack(list(go(query, key, value)))"),
    "recursion": (
        "def go(q, k, v): return [one(q[0], k[0], v[0]), *go(q[1:], k[1:], v[1:])] if len(q) else []",
        "torch.stack(go(query, key, value))",
    ),
    "recursion of a lambda": (
        "go = lambda q, k, v: [one(q[0], k[0], v[0]), *go(q[1:], k[1:], v[1:])] if len(q) else []",
        "torch.stack(go(query, key, value))",
    ),
    "sorted": (
        "",
        "(out := [], sorted(range(len(query)), key=lambda n: out.append(one(query[n], key[n], value[n])) or 0),"
        " torch.stack(out))[-1]",
    ),
    "filter": (
        "",
        "(out := [], list(filter(lambda n: out.append(one(query[n], key[n], value[n])), range(len(query)))),"
        " torch.stack(out))[-1]",
    ),
    "iter": ("", "iterated(query, key, value)"),
    "reduce": (
        "",
        "torch.stack(functools.reduce(lambda out, n: [*out, one(query[n], key[n], value[n])], range(len(query)), []))",
    ),
    "vmap": ("", "torch.vmap(one)(query, key, value)"),
    "vmap imported as": ("from torch import vmap as fast", "fast(one)(query, key, value)"),
    "vmap of a star import": ("from torch.func import *", "vmap(one)(query, key, value)"),
    "vmap as a decorator": ("@torch.vmap\ndef fast(q, k, v): return one(q, k, v)", "fast(query, key, value)"),
    "vmap through getattr": ("", "getattr(torch, 'vmap')(one)(query, key, value)"),
    "vmap on a class": ("class Box: pass\nBox.fast = staticmethod(torch.vmap(one))", "Box.fast(query, key, value)"),
    "apply_": ("", "applied(query, key, value)"),
    "numpy": ("", "in_numpy(query, key, value)"),
    "lists": ("", "in_lists(query, key, value)"),
    "vectorize": ("", "vectorized(query, key, value)"),
    "protocol": (
        "class Rows:\n"
        "    def __init__(self, *all): self.all = all\n"
        "    def __getitem__(self, n): return one(*(each[n] for each in self.all))",
        "torch.stack(tuple(Rows(query, key, value)))",
    ),
    "exec": ("", "executed(query, key, value)"),
    "default": ("def go(q, k, v, each=map): return torch.stack(list(each(one, q, k, v)))", "go(query, key, value)"),
}
HELPERS = """
def slowly(q, k, v):
    out = []
    for n in range(len(q)):
        out.append(one(q[n], k[n], v[n]))
    return torch.stack(out)

def whiling(q, k, v):
    out = []
    while len(out) < len(q):
        out.append(one(q[len(out)], k[len(out)], v[len(out)]))
    return torch.stack(out)

def iterated(q, k, v):
    left = list(zip(q, k, v))[::-1]
    return torch.stack(list(iter(lambda: one(*left.pop()) if left else None, None)))

def applied(q, k, v):
    out = {}
    torch.arange(len(q)).apply_(lambda n: out.setdefault(n, one(q[n], k[n], v[n])) is None)
    return torch.stack(tuple(out.values()))

def softmax(scores):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def in_numpy(q, k, v):
    q, k, v = np.asarray(q), np.asarray(k), np.asarray(v)
    out = np.zeros((*q.shape[:2], v.shape[-1]), np.float32)
    for n in range(len(q)):
        out[n] = softmax(q[n] @ k[n].T * q.shape[-1] ** -0.5) @ v[n]
    return torch.from_numpy(out)

def in_lists(q, k, v):
    scale, out = q.shape[-1] ** -0.5, []
    q, k, v = q.tolist(), k.tolist(), v.tolist()
    for n in range(len(q)):
        scores = np.array([[sum(a * b for a, b in zip(i, j)) * scale for j in k[n]] for i in q[n]])
        out.append((softmax(scores) @ np.array(v[n])).tolist())
    return torch.tensor(out)

def vectorized(q, k, v):
    go = np.vectorize(lambda a, b, c: softmax(a @ b.T * a.shape[-1] ** -0.5) @ c, signature="(q,m),(k,m),(k,d)->(q,d)")
    return torch.from_numpy(go(np.asarray(q), np.asarray(k), np.asarray(v)).astype(np.float32))

def executed(q, k, v):
    found = {}
    exec("y = torch.stack([one(*each) for each in zip(q, k, v)])", {**globals(), "q": q, "k": k, "v": v}, found)
    return found["y"]
"""
# A ready-made attention, under whatever name it is called.
READY_MADE = {
    "by its name": ("", "F.scaled_dot_product_attention(query, key, value)"),
    "imported as": (
        "from torch.nn.functional import scaled_dot_product_attention as attend",
        "attend(query, key, value)",
    ),
    "imported in the function": ("", "inside(query, key, value)"),
    "star import": (
        "from torch.nn.functional import *",
        "scaled_dot_product_attention(query, key, value)",
    ),
    "alias": ("attend = F.scaled_dot_product_attention", "attend(query, key, value)"),
    "alias of an alias": ("first = F.scaled_dot_product_attention\nattend = first", "attend(query, key, value)"),
    "lambda": ("attend = lambda *x: F.scaled_dot_product_attention(*x)", "attend(query, key, value)"),
    "partial": (
        "attend = functools.partial(F.scaled_dot_product_attention, attn_mask=None)",
        "attend(query, key, value)",
    ),
    "on a class": ("class Box: pass\nBox.attend = F.scaled_dot_product_attention", "Box.attend(query, key, value)"),
    "in a class": (
        "class Box:\n    attend = staticmethod(F.scaled_dot_product_attention)",
        "Box.attend(query, key, value)",
    ),
    "on a tensor": ("torch.Tensor.attend = lambda *x: F.scaled_dot_product_attention(*x)", "query.attend(key, value)"),
    "set by name": (
        "class Box: pass\nsetattr(Box, 'attend', F.scaled_dot_product_attention)",
        "Box.attend(query, key, value)",
    ),
    "in a table": ("TABLE = {'a': F.scaled_dot_product_attention}", "TABLE['a'](query, key, value)"),
    "appended": ("TABLE = []\nTABLE.append(F.scaled_dot_product_attention)", "TABLE[0](query, key, value)"),
    "a default": ("def go(*x, f=F.scaled_dot_product_attention): return f(*x)", "go(query, key, value)"),
    "getattr": ("", "getattr(F, 'scaled_dot_product_attention')(query, key, value)"),
    "getattr, put together": ("", "getattr(F, 'scaled_dot_' + 'product_attention')(query, key, value)"),
    "getattr of another name": ("G = F", "getattr(G, 'scaled_dot_' + 'product_attention')(query, key, value)"),
    "importlib": (
        "",
        "getattr(importlib.import_module('torch.nn.functional'), 'scaled_dot_' + 'product_attention')(query, key, value)",
    ),
    "eval": ("", "eval('F.scaled_dot_product_attention')(query, key, value)"),
    "__dict__": ("", "F.__dict__['scaled_dot_' + 'product_attention'](query, key, value)"),
    "vars": ("", "vars(F)['scaled_dot_' + 'product_attention'](query, key, value)"),
    "attrgetter": ("", "operator.attrgetter('scaled_dot_product_attention')(F)(query, key, value)"),
    "sys.modules": (
        "",
        "getattr(sys.modules['torch.nn.functional'], 'scaled_dot_product_attention')(query, key, value)",
    ),
    "aten": ("", "torch.ops.aten.scaled_dot_product_attention(query, key, value)"),
    "torch._C": ("", "torch._C._nn.scaled_dot_product_attention(query, key, value)"),
    # Nothing in the tree tells; the operations do.
    "only in a string": ("exec('attend = F.' + 'scaled_dot_product_attention')", "attend(query, key, value)"),
}
INSIDE = """
def inside(q, k, v):
    from torch.nn.functional import scaled_dot_product_attention
    return scaled_dot_product_attention(q, k, v)
"""
ENDING = """
def scaled_dot_product_no_loop_batch(query, key, value, mask=None):
    y = {y}
    return y, weights(query, key)
"""
# Honest code that has something in common with the above.
HONEST = {
    "literal loops": (
        "",
        """
    query, key, value = (tensor.contiguous() for tensor in (query, key, value))
    assert all(tensor.dim() == 3 for tensor in (query, key, value))
    assert [a == b for a, b in zip(query.shape[2:], key.shape[2:])] and [s for s in query.size()]
    for name, tensor in {"query": query, "key": key}.items():
        assert tensor.ndim == 3, f"{name} is not a batch"
""",
    ),
    "words": (
        '"""We do not use F.scaled_dot_product_attention here, nor map, nor vmap."""\nHINT = "torch.vmap"',
        '''
    """Like torch.nn.functional.scaled_dot_product_attention, by hand."""
    assert query.dim() == 3, "torch.nn.functional.scaled_dot_product_attention would take this, map and eval too"
    "F.scaled_dot_product_attention"
    print(HINT, "nn.MultiheadAttention")
''',
    ),
    "own names": (
        "def map(x): return x\ndef scaled_dot_product_attention(q): return q\ndef merge(x, key): return x",
        """
    filter = map(query)
    query = scaled_dot_product_attention(merge(filter, key=key))
""",
    ),
    "a module in eval mode": (
        "class Same(nn.Module):\n"
        "    def __init__(self):\n"
        "        super(Same, self).__init__()\n"
        "        self.map = nn.Identity()\n"
        "    def forward(self, x): return self.map(x)\n",
        "\n    query = Same().eval()(query)\n",
    ),
    "a trial of one's own": (
        "if __name__ == '__main__':\n"
        "    x = torch.rand(2, 3, 4)\n"
        "    scores = F.scaled_dot_product_attention(x, x, x)\n"
        "    print([row for row in scores])\n"
        "scores = None\nscores = F.scaled_dot_product_attention(*[torch.ones(1, 2, 3)] * 3)",
        "\n    scores = query @ key.transpose(1, 2)\n    assert scores.dim() == 3\n",
    ),
    "item of a mask": ("", "\n    if mask is not None and mask.any().item():\n        pass\n"),
    "getattr of an object": (
        "",
        "\n    for part in ('shape', 'dtype'):\n        assert getattr(query, part) is not None\n",
    ),
    "a cache on the function": (
        "",
        "\n    scaled_dot_product_no_loop_batch.calls = getattr(scaled_dot_product_no_loop_batch, 'calls', 0) + 1\n",
    ),
}


@pytest.fixture(scope="module")
def verdicts(zygote: Zygote) -> Callable[[str], dict[str, Result]]:
    """The two rules on lab 1's no-loop part, and the check of its values that comes before, by name."""
    lab = labs.load("attention", ROOT)
    wanted = ("no_loop_output", "written_without_a_loop", "attention_is_not_ready_made")
    warm = Session(replace(lab, checks=tuple(check for check in lab.checks if check.name in wanted)), zygote)

    def judged(text: str) -> dict[str, Result]:
        data = text.encode()
        submission = Submission("hand-in", {"attention.py": data}, {}, (), (), {"attention.py": "attention.py"})
        return {result.check: result for result in warm.grade(submission).results}

    return judged


@pytest.mark.parametrize("disguise", LOOPS)
def test_a_loop_is_seen_in_every_disguise(verdicts: Callable[[str], dict[str, Result]], disguise: str) -> None:
    before, y = LOOPS[disguise]
    found = verdicts(f"{OPENING}{HELPERS}{before}\n{ENDING.format(y=y)}")
    assert found["no_loop_output"].status is Status.PASSED, found["no_loop_output"].gap
    rule = found["written_without_a_loop"]
    assert rule.status is Status.FAILED
    assert rule.where is not None
    assert found["attention_is_not_ready_made"].status is (Status.FAILED if disguise == "exec" else Status.PASSED)


@pytest.mark.parametrize("disguise", READY_MADE)
def test_a_ready_made_attention_is_seen_in_every_disguise(
    verdicts: Callable[[str], dict[str, Result]], disguise: str
) -> None:
    before, y = READY_MADE[disguise]
    found = verdicts(f"{OPENING}{INSIDE}{before}\n{ENDING.format(y=y)}")
    assert found["no_loop_output"].status is Status.PASSED, found["no_loop_output"].gap
    rule = found["attention_is_not_ready_made"]
    assert rule.status is Status.FAILED
    assert "not allowed" in rule.gap or "hides which function" in rule.gap or "a ready-made attention" in rule.gap


@pytest.mark.parametrize("kind", HONEST)
def test_honest_code_is_never_blamed(verdicts: Callable[[str], dict[str, Result]], kind: str) -> None:
    before, lines = HONEST[kind]
    body = f"def scaled_dot_product_no_loop_batch(query, key, value, mask=None):{lines}"
    body += "    read = weights(query, key)\n    return read @ value, read\n"
    opening = OPENING.replace("import functools, importlib, itertools, operator, sys\n", "")
    found = verdicts(f"{opening}{before}\n{body}" if before[:3] != '"""' else f"{before}\n{opening}{body}")
    assert {name: result.gap for name, result in found.items() if result.status is not Status.PASSED} == {}
    assert [result.review for result in found.values() if result.review] == []
