"""Rules on how a part is written: two loops, no loop, no ready-made attention or norm.

Read twice: from the syntax tree (here, in the grader, without running anything) and from the operations that torch
dispatches at two lengths (in the guest). A count comes from the student's process and could be forged, a tree cannot see
through every disguise; where the two disagree the points stand and staff are asked to look.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache

from autograder.check import NeedsReview, RuleBroken
from autograder.language import N_, say
from autograder.loops import Code, Loop, called, code_of
from autograder.reach import Scope
from autograder.sandbox.proxy import NoAnswer
from autograder.source import Source

# Where values leave torch, nothing that is dispatched tells what happens to them. The second kind has honest uses, so it
# counts only beside a loop.
EXITS = frozenset({"tolist", "numpy"})
LOOP_EXITS = frozenset(
    {"item", "asarray", "array", "asanyarray", "fromiter", "from_dlpack", "untyped_storage", "data_ptr"}
)
# What calls something without naming it: builtins, and names that stand behind a dot.
INDIRECT = frozenset({"eval", "exec", "compile", "__import__", "globals", "vars", "builtins", "__builtins__"})
INDIRECT_PARTS = frozenset({"importlib", "import_module", "attrgetter", "methodcaller", "__getattribute__", "__dict__"})
# What can put another function in the place of the one that is read, from anywhere in the file.
REPLACING = INDIRECT - {"compile"} | {"ctypes", "gc", "importlib"}
REPLACING_PARTS = frozenset({"__code__", "__globals__", "__dict__", "import_module"})
NAMES_IN_STRINGS = frozenset({"getattr", "setattr", "hasattr"})
# Dispatched operations by which ready-made parts show, whatever name they were called by.
READY_MADE = {
    # `_safe_softmax` is the softmax of torch's own attention, and of nothing else.
    N_("attention"): ("scaled_dot_product", "multi_head_attention", "multihead_attention", "_safe_softmax"),
    N_("layer norm"): ("layer_norm", "batch_norm", "group_norm", "rms_norm"),
    # By operation only: `std` is what students call their own root of the variance.
    N_("standard deviation"): ("aten.std",),
}
# Dispatched operations that only look at a tensor in another way.
VIEWS = ("aten.slice.", "aten.select.", "aten.split", "aten.unbind.", "aten.view.", "aten.unsqueeze.", "aten.alias.")
# The last names of what is not allowed where attention is being built.
ATTENTION = (
    "scaled_dot_product_attention",
    "MultiheadAttention",
    "multi_head_attention_forward",
    "flex_attention",
    "TransformerEncoderLayer",
    "TransformerDecoderLayer",
)
Count = Callable[[int], dict[str, int]]
# What staff are told where a loop is seen and nothing of torch is counted in it; the audit knows it by these words.
DOES_NOT_GROW = "but the operation count does not grow"


def no_loop(
    source: Source, qualname: str, count: Count | None, lengths: tuple[int, int] = (4, 9), letter: str = "K"
) -> None:
    """No Python loop over positions, sequences or heads.

    Args:
        source: the hand-in as text, of which a check asks by this name; nothing of it is run.
        qualname: the function, class or method that is meant, with what it calls of the same file: `Layer.forward`.
        count: gives the dispatched operations at size n: `lambda n: student.f.operations(probes.normal(n, 4))`. None for
            a function of sizes only, where a loop need not run anything of torch: then a loop in the code breaks the rule.
            Not where tensors come in: there a loop over a fixed number of things is no fault, and only the count knows.
        lengths: the two sizes that are compared.
        letter: the size that is meant, as the handout calls it.

    Raises:
        RuleBroken: the count grows with the size, a hidden loop or a way out of torch stands in the code; without a count
            any loop.
        NeedsReview: the code shows a loop and the count does not grow, or what runs may not be what is read.
    """
    code = code_of(source, qualname)
    loops = code.loops
    if count:
        _refuse_growth(loops, [count(length) for length in lengths], lengths, letter)
    for loop in loops:
        if loop.hidden or not count:
            raise RuleBroken(say("There is {loop} in a part that must have no loop.", loop=loop.said), loop.line)
    exits = EXITS | LOOP_EXITS if loops else EXITS
    for node, scope in code.nodes:
        if isinstance(node, ast.Call) and called(node) in exits and code.foreign(node.func, scope):
            text = say("`{name}` leaves torch in a part that must stay in tensors.", name=called(node))
            raise RuleBroken(text, node.lineno)
        _refuse_indirect(code, node, scope)
    if loops:
        raise NeedsReview(f"{source.where(loops[0].line)} shows {loops[0].what}, {DOES_NOT_GROW}")
    _ask_where_another_may_run(code)


def _refuse_growth(loops: list[Loop], counts: list[dict[str, int]], lengths: tuple[int, int], letter: str) -> None:
    """Raise RuleBroken where more is done at the larger size."""
    short, long = (_work(found) if not loops else sum(found.values()) for found in counts)
    if long > short:
        seen = say(
            "{few} torch operations at {size} = {small}, {many} at {size} = {large}",
            few=short,
            many=long,
            size=letter,
            small=lengths[0],
            large=lengths[1],
        )
        if loops:
            text = say("There is {loop} in a part that must have none ({seen}).", loop=loops[0].said, seen=seen)
            raise RuleBroken(text, loops[0].line)
        raise RuleBroken(say("The work grows as a loop does ({seen}), in a part that must have none.", seen=seen))


def operations_of(first: Callable[[], dict[str, int]], *others: Callable[[], dict[str, int]]) -> dict[str, int]:
    """The operations of several runs together: a loop may hide where only a mask leads.

    A run other than the first that gives no answer counts nothing: that it fails costs points elsewhere.
    """
    total = Counter(first())
    for run in others:
        with suppress(NoAnswer):
            total.update(run())
    return dict(total)


def loops_over_two_axes(source: Source, qualname: str, count: Count | None, lengths: tuple[int, int] = (3, 5)) -> None:
    """Loops are the point of this part: at least one over positions, and never more than two inside each other.

    Which two axes, how the result is put together and whether the inner one is vectorised is the student's choice.

    Args:
        source, qualname, lengths: as for `no_loop`.
        count: as for `no_loop`. None for a function of sizes only, which may do its arithmetic on Python's numbers: then a
            loop in the code is a loop. Not where tensors come in: there a loop that is written down and does nothing would do.

    Raises:
        RuleBroken: there is no loop, or three are nested.
        NeedsReview: the code shows loops and the count does not grow with the length, or the other way round.
    """
    code = code_of(source, qualname)
    loops = code.loops
    deepest = max(loops, key=lambda loop: loop.depth, default=None)
    grows = count is None or _grows(count, lengths)
    if deepest is None:
        if count and grows:
            raise NeedsReview(f"no loop is seen in {qualname}, but the operation count grows as if there were one")
        raise RuleBroken(say("There is no loop: this part is the slow version, written with two loops over positions."))
    if deepest.depth > 2:
        text = say("{number} loops stand inside each other; two are asked for.", number=deepest.depth)
        raise RuleBroken(text, deepest.line)
    if not grows:
        raise NeedsReview(f"{source.where(deepest.line)} shows {deepest.what}, {DOES_NOT_GROW}")
    _ask_where_another_may_run(code)


def not_ready_made(
    source: Source, qualname: str, forbidden: tuple[str, ...], part: str, operations: dict[str, int]
) -> None:
    """The part that is being built here may not be taken ready-made from torch.

    Args:
        source, qualname: as for `no_loop`.
        forbidden: last names of what is not allowed: `scaled_dot_product_attention`, `LayerNorm`.
        part: key of READY_MADE, the operations it shows as.
        operations: what torch dispatched during one call.

    Raises:
        RuleBroken: it is named in the code, in a string, behind an alias, or was dispatched.
    """
    code = code_of(source, qualname)
    for node, scope in code.nodes:
        for name in _named(code, node, scope):
            inner = name.startswith("_") and any(word in name for word in READY_MADE[part])
            if name in forbidden or inner:
                line = getattr(node, "lineno", None)
                raise RuleBroken(say("`{name}` is what is being built here, so it is not allowed.", name=name), line)
        _refuse_indirect(code, node, scope)
    for operation in operations:
        if any(word in operation for word in READY_MADE[part]):
            known = {"name": operation, "part": say(part)}
            raise RuleBroken(say("torch ran `{name}`: a ready-made {part} is what is being built here.", **known))
    _ask_where_another_may_run(code)


def _ask_where_another_may_run(code: Code) -> None:
    """Raise NeedsReview where what runs may be something else than what was read here."""
    doubt = _doubt(code)
    if doubt:
        raise NeedsReview(doubt)


@lru_cache(maxsize=16)
def _doubt(code: Code) -> str:
    """Why what runs may be something else than what was read; empty where nothing says so."""
    source = code.source
    if not code.roots:
        return f"{source.name} defines it in no way that can be read: look at what runs"
    own = _own_imports(source)
    for node, _ in code.nodes:
        if id(node) in own:
            return f"{source.where(getattr(node, 'lineno', 0))} takes it from another file, which is not read here"
    return _replacement(source)


@lru_cache(maxsize=16)
def _own_imports(source: Source) -> frozenset[int]:
    """What a file imports (by id) from other files of the hand-in."""
    return frozenset(id(item) for node in source.nodes for item in _imported_from(node, source.helpers))


@lru_cache(maxsize=16)
def _replacement(source: Source) -> str:
    """Where a file could put another function in the place of one that was read; empty where it could not."""
    for node in source.nodes:
        name = _replaces(node)
        if name:
            line = source.where(getattr(node, "lineno", 0))
            return f"{line}: `{name}` can put another function in the place of the one that was read"
    return ""


def _imported_from(node: ast.AST, modules: frozenset[str]) -> Iterator[ast.alias]:
    if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in modules:
        yield from node.names
    if isinstance(node, ast.Import):
        yield from (item for item in node.names if item.name.partition(".")[0] in modules)


def _replaces(node: ast.AST) -> str:
    """The name of what can replace a function without being seen to; empty where a node is harmless."""
    if isinstance(node, ast.Name):
        return node.id if node.id in REPLACING else ""
    if isinstance(node, ast.alias):
        return node.name if node.name.partition(".")[0] in REPLACING else ""
    if not isinstance(node, ast.Attribute):
        return ""
    if node.attr == "modules" and isinstance(node.value, ast.Name) and node.value.id == "sys":
        return "sys.modules"
    if isinstance(node.ctx, ast.Store) and _owner(node) in ("torch", "nn", "F", "Tensor"):
        return ast.unparse(node)
    return node.attr if node.attr in REPLACING_PARTS else ""


def _owner(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _grows(count: Count, lengths: tuple[int, int]) -> bool:
    short, long = (sum(count(length).values()) for length in lengths)
    return long > short


def _work(operations: dict[str, int]) -> int:
    """How many operations compute something: `tensor_split` alone shows as one view for each part, without a loop."""
    return sum(count for name, count in operations.items() if not name.startswith(VIEWS))


def _named(code: Code, node: ast.AST, scope: Scope) -> Iterator[str]:
    """The last names of what a node takes from elsewhere; a string counts where it is used as a name, and only there."""
    yield code.foreign(node, scope)
    if isinstance(node, ast.Call) and called(node) in NAMES_IN_STRINGS:
        for argument in node.args:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value


def _refuse_indirect(code: Code, node: ast.AST, scope: Scope) -> None:
    """Raise RuleBroken where a function of a module is called without being named."""
    name = code.foreign(node, scope)
    if (name in INDIRECT and not isinstance(node, ast.Attribute)) or name in INDIRECT_PARTS:
        text = say("`{name}` hides which function is called; call it by its name.", name=name)
        raise RuleBroken(text, getattr(node, "lineno", None))
    if isinstance(node, ast.Call) and called(node) == "getattr" and len(node.args) > 1:
        owner, wanted = node.args[:2]
        if not isinstance(wanted, ast.Constant) and code.is_module(owner, scope):
            text = say("`getattr` with a name that is put together hides which function is called.")
            raise RuleBroken(text, node.lineno)
