"""Rules on how a part is written: two loops, no loop, no ready-made attention or norm.

Read twice: from the syntax tree (here, in the grader, without running anything) and from the operations that torch
dispatches at two lengths (in the guest). A count comes from the student's process and could be forged, a tree cannot see
through every disguise; where the two disagree the points stand and staff are asked to look.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autograder.check import NeedsReview, RuleBroken
from autograder.source import Source

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Calls that loop in disguise: over positions in Python, whatever torch gets to see of it.
DISGUISES = (
    "map",
    "reduce",
    "accumulate",
    "starmap",
    "vectorize",
    "fromfunction",
    "apply_along_axis",
    "vmap",
    "apply_",
    "map_",
)
# Where values leave torch, nothing that is dispatched tells what happens to them.
EXITS = ("tolist", "numpy", "item", "unbind")
INDIRECT = ("eval", "exec", "compile", "__import__", "import_module", "globals")
# Dispatched operations by which ready-made parts show, whatever name they were called by.
READY_MADE = {
    "attention": ("scaled_dot_product", "multi_head_attention", "multihead_attention"),
    "layer norm": ("layer_norm", "batch_norm", "group_norm", "rms_norm"),
    # By operation only: `std` is what students call their own root of the variance.
    "standard deviation": ("aten.std",),
}
# Dispatched operations that only look at a tensor in another way.
VIEWS = ("aten.slice.", "aten.select.", "aten.split", "aten.unbind.", "aten.view.", "aten.unsqueeze.", "aten.alias.")
# The last names of what is not allowed where attention is being built.
ATTENTION = (
    "scaled_dot_product_attention",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_flash_attention_for_cpu",
    "MultiheadAttention",
    "multi_head_attention_forward",
    "_native_multi_head_attention",
    "TransformerEncoderLayer",
)
Count = Callable[[int], dict[str, int]]


@dataclass(frozen=True)
class Loop:
    """A loop in the student's code: its line, what it is called, how deep it is nested (1 is outermost)."""

    line: int
    what: str
    depth: int


class Code:
    """A definition of the hand-in together with the functions of the same file that it calls."""

    def __init__(self, source: Source, qualname: str) -> None:
        self.source = source
        self.functions: dict[str, FunctionNode] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        for node in source.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions[node.name] = node
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
        self.root: ast.AST | None = self._definition(qualname)

    def _definition(self, qualname: str) -> ast.AST | None:
        owner, _, method = qualname.rpartition(".")
        if not owner:
            return self.functions.get(qualname) or self.classes.get(qualname)
        seen: list[str] = []
        waiting = [owner]
        while waiting:  # a method that a class does not define may come from its bases in the same file
            name = waiting.pop(0)
            node = self.classes.get(name)
            if node is None or name in seen:
                continue
            seen.append(name)
            for item in reversed(node.body):  # of several definitions the last one counts
                if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and item.name == method:
                    return item
            waiting += [base.id for base in node.bases if isinstance(base, ast.Name)]
        return None

    def reached(self) -> list[ast.AST]:
        """The definition and every definition of the file that it may call, each once."""
        found: list[ast.AST] = []
        todo = [self.root] if self.root else []
        while todo:
            node = todo.pop()
            if node in found:
                continue
            found.append(node)
            todo += [callee for inner in ast.walk(node) for callee in self._mentioned(inner)]
        return found

    def _mentioned(self, node: ast.AST) -> list[ast.AST]:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            return [found for found in (self.functions.get(node.id), self.classes.get(node.id)) if found]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
            return [
                method
                for owner in self.classes.values()
                for method in owner.body
                if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and method.name == node.attr
            ]
        return []

    def is_own(self, node: ast.AST, root: ast.AST) -> bool:
        """Whether a name within `root` is the student's: a helper or a variable of theirs may be called `normalize`."""
        if isinstance(node, ast.Attribute):
            return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if not isinstance(node, ast.Name) or node.id in self.functions or node.id in self.classes:
            return isinstance(node, ast.Name)
        return any(
            isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store) and inner.id == node.id
            for inner in ast.walk(root)
        )

    def loops(self) -> list[Loop]:
        """Every loop that may run more than a fixed number of times, nested calls included."""
        return list(self._loops(self.root, 0, ())) if self.root else []

    def _loops(self, node: ast.AST, depth: int, stack: tuple[ast.AST, ...]) -> Iterator[Loop]:
        inner = depth
        if isinstance(node, (ast.For, ast.AsyncFor)) and not _fixed(node.iter):
            inner += 1
            yield Loop(node.lineno, "a for loop", inner)
        elif isinstance(node, ast.While):
            inner += 1
            yield Loop(node.lineno, "a while loop", inner)
        elif isinstance(node, COMPREHENSIONS):
            for generator in node.generators:
                if not _fixed(generator.iter):
                    inner += 1
                    yield Loop(node.lineno, "a comprehension", inner)
        elif isinstance(node, ast.Call):
            name = called(node)
            if name in DISGUISES:
                inner += 1
                yield Loop(node.lineno, f"a hidden loop ({name})", inner)
            elif name == "iter" and len(node.args) == 2:
                inner += 1
                yield Loop(node.lineno, "a hidden loop (iter with a sentinel)", inner)
            elif name in ("sorted", "min", "max", "sort") and any(word.arg == "key" for word in node.keywords):
                inner += 1
                yield Loop(node.lineno, f"a hidden loop ({name} with a key)", inner)
        # A mention, not only a call: a function may be handed on and called elsewhere.
        for callee in self._mentioned(node):
            if callee in stack or callee is self.root:
                yield Loop(getattr(node, "lineno", 0), "recursion", inner + 1)
            else:
                yield from self._loops(callee, inner, (*stack, callee))
        for child in ast.iter_child_nodes(node):
            yield from self._loops(child, inner, stack)


def no_loop(source: Source, qualname: str, count: Count, lengths: tuple[int, int] = (4, 9), letter: str = "K") -> None:
    """No Python loop over positions, sequences or heads: `count(n)` gives the dispatched operations at size n.

    Args:
        letter: the size that is meant, as the handout calls it.

    Raises:
        RuleBroken: the count grows with the size, a hidden loop or a way out of torch stands in the code.
        NeedsReview: the code shows a loop and the count does not grow.
    """
    code = Code(source, qualname)
    loops = code.loops()
    counts = [count(length) for length in lengths]
    short, long = (_work(found) if not loops else sum(found.values()) for found in counts)
    if long > short:
        seen = f"{short} torch operations at {letter} = {lengths[0]}, {long} at {letter} = {lengths[1]}"
        if loops:
            raise RuleBroken(f"There is {loops[0].what} in a part that must have none ({seen}).", loops[0].line)
        raise RuleBroken(f"The work grows as a loop does ({seen}), in a part that must have none.")
    for loop in loops:
        if "hidden" in loop.what or loop.what == "recursion":
            raise RuleBroken(f"There is {loop.what} in a part that must have no loop.", loop.line)
    for node in _calls(code):
        if called(node) in EXITS[:3]:
            raise RuleBroken(f"`.{called(node)}()` leaves torch in a part that must stay in tensors.", node.lineno)
    if loops:
        raise NeedsReview(f"{source.where(loops[0].line)} shows {loops[0].what}, but the operation count does not grow")


def loops_over_two_axes(source: Source, qualname: str, count: Count, lengths: tuple[int, int] = (4, 9)) -> None:
    """Loops are the point of this part: at least one over positions, and never more than two inside each other.

    Which two axes, how the result is put together and whether the inner one is vectorised is the student's choice.

    Raises:
        RuleBroken: there is no loop, or three are nested.
        NeedsReview: the code shows loops, and the count does not grow with the length.
    """
    loops = Code(source, qualname).loops()
    deepest = max(loops, key=lambda loop: loop.depth, default=None)
    short, long = (sum(count(length).values()) for length in lengths)
    if deepest is None:
        if long > short:
            raise NeedsReview(f"no loop is seen in {qualname}, but the operation count grows as if there were one")
        raise RuleBroken("There is no loop: this part is the slow version, written with two loops over positions.")
    if deepest.depth > 2:
        raise RuleBroken(f"{deepest.depth} loops stand inside each other; two are asked for.", deepest.line)
    if long <= short:
        raise NeedsReview(f"{source.where(deepest.line)} shows {deepest.what}, but the operation count does not grow")


def not_ready_made(
    source: Source, qualname: str, forbidden: tuple[str, ...], part: str, operations: dict[str, int]
) -> None:
    """The part that is being built here may not be taken ready-made from torch.

    Args:
        forbidden: last names of what is not allowed: `scaled_dot_product_attention`, `LayerNorm`.
        part: key of READY_MADE, the operations it shows as.
        operations: what torch dispatched during one call.

    Raises:
        RuleBroken: it is named in the code, in a string, behind an alias, or was dispatched.
    """
    code = Code(source, qualname)
    aliases = _aliases(source.tree, forbidden)
    for root in code.reached():
        docstrings = _docstrings(root)
        for node in ast.walk(root):
            name = _spelled(node, docstrings)
            if name and (name in aliases or (name in forbidden and not code.is_own(node, root))):
                named = aliases.get(name, name)
                line = getattr(node, "lineno", None)
                raise RuleBroken(f"`{named}` is what is being built here, so it is not allowed.", line)
            if isinstance(node, ast.Call) and called(node) in INDIRECT:
                raise RuleBroken(f"`{called(node)}` hides which function is called; call it by its name.", node.lineno)
    for operation in operations:
        if any(word in operation for word in READY_MADE[part]):
            raise RuleBroken(f"torch ran `{operation}`: a ready-made {part} is what is being built here.")


def _work(operations: dict[str, int]) -> int:
    """How many operations compute something: `tensor_split` alone shows as one view for each part, without a loop."""
    return sum(count for name, count in operations.items() if not name.startswith(VIEWS))


def called(node: ast.Call) -> str:
    """The last name of what is called: `softmax` of `torch.nn.functional.softmax(x)`."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _calls(code: Code) -> Iterator[ast.Call]:
    for root in code.reached():
        for node in ast.walk(root):
            if isinstance(node, ast.Call):
                yield node


def _fixed(iterable: ast.expr) -> bool:
    """Whether a loop runs a number of times that is written down: over a literal, or `range(2)`."""
    if isinstance(iterable, (ast.Tuple, ast.List, ast.Set)):
        return not any(isinstance(item, ast.Starred) for item in iterable.elts)
    if isinstance(iterable, ast.Call) and called(iterable) in ("range", "enumerate", "zip", "reversed"):
        return all(isinstance(argument, ast.Constant) or _fixed(argument) for argument in iterable.args)
    return isinstance(iterable, ast.Constant)


def _aliases(tree: ast.Module, forbidden: tuple[str, ...]) -> dict[str, str]:
    """Names that stand for something forbidden: `from … import LayerNorm as LN`, `f = F.layer_norm`."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {item.asname: item.name for item in node.names if item.asname and item.name in forbidden}
        elif isinstance(node, ast.Assign) and isinstance(node.value, (ast.Attribute, ast.Name)):
            name = node.value.attr if isinstance(node.value, ast.Attribute) else node.value.id
            if name in forbidden or name in found:
                targets = [target.id for target in node.targets if isinstance(target, ast.Name)]
                found |= {target: found.get(name, name) for target in targets}
    return found


def _spelled(node: ast.AST, docstrings: set[int]) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
        return node.value.rpartition(".")[2]
    return ""


def _docstrings(root: ast.AST) -> set[int]:
    found = set()
    for node in ast.walk(root):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found.add(id(first.value))
    return found
