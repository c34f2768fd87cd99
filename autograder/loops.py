"""The loops of a definition, in the open and in disguise, with how deep they stand inside each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from autograder.language import N_, say
from autograder.reach import COMPREHENSIONS, FUNCTIONS, Reach, Scope
from autograder.source import Source

# Functions that loop, whatever torch gets to see of it. The first argument of most is what is done each time.
DISGUISES = frozenset(
    {"map", "filter", "reduce", "accumulate", "starmap", "filterfalse", "takewhile", "dropwhile", "groupby"}
    | {"vectorize", "frompyfunc", "fromfunction", "apply_along_axis", "apply_over_axes", "nditer", "ndenumerate"}
    | {"vmap", "apply_", "map_"}
)
WITH_KEY = frozenset({"sorted", "min", "max", "sort", "nsmallest", "nlargest", "merge", "insort", "bisect"})
DEEPEST = 6
ITERATIONS = 16  # a loop over so many written-down steps is a way to write down steps


@dataclass(frozen=True)
class Loop:
    """A loop in the student's code: its line, what it is, how deep it is nested (1 is outermost), by which name it hides."""

    line: int
    kind: str
    depth: int
    hidden: bool = False
    by: str = ""

    @property
    def what(self) -> str:
        """What it is called, for staff."""
        return self.kind.format(name=self.by)

    @property
    def said(self) -> str:
        """The same for the student."""
        return say(self.kind, name=self.by)


class Code(Reach):
    """A definition of the hand-in together with what it uses of the same file, and the loops in it."""

    @cached_property
    def loops(self) -> list[Loop]:
        """Every loop that may run more than a fixed number of times, nested calls included, by line."""
        seen: set[tuple[int, int]] = set()
        found = [loop for root in self.roots for loop in self._loops(root, {}, 0, (root,), seen)]
        return sorted(set(found), key=lambda loop: (loop.line, loop.depth))

    def _loops(
        self, node: ast.AST, scope: Scope, depth: int, stack: tuple[ast.AST, ...], seen: set[tuple[int, int]]
    ) -> Iterator[Loop]:
        if (id(node), depth) in seen or depth > DEEPEST:  # otherwise helpers of helpers of helpers take for ever
            return
        seen.add((id(node), depth))
        inner, once = self._opened(node, scope, depth)
        yield from inner
        deeper = inner[-1].depth if inner else depth
        for callee, there in self.meant(node, scope):
            if callee in stack:
                # A class may be named in its own methods, and a value made from its old one.
                within = stack[stack.index(callee) :]
                called_again = any(isinstance(item, FUNCTIONS) for item in within) and id(node) not in looked_at(self.source)
                if called_again and not isinstance(callee, ast.ClassDef):
                    yield Loop(getattr(node, "lineno", 0), N_("recursion"), depth + 1, hidden=True)
            else:
                yield from self._loops(callee, there, deeper, (*stack, callee), seen)
        for child, there in self.children(node, scope):
            below = (*stack, child) if isinstance(child, FUNCTIONS) else stack
            # What a loop runs over is computed once, before it begins.
            yield from self._loops(child, there, depth if child in once else deeper, below, seen)

    def _opened(self, node: ast.AST, scope: Scope, depth: int) -> tuple[list[Loop], list[ast.AST]]:
        """The loops that a node itself is, and those of its parts that are outside of them."""
        line = getattr(node, "lineno", 0)
        if isinstance(node, (ast.For, ast.AsyncFor)):
            return ([] if fixed(node.iter) else [Loop(line, N_("a for loop"), depth + 1)]), [node.iter, node.target]
        if isinstance(node, ast.While):
            return [Loop(line, N_("a while loop"), depth + 1)], []
        if isinstance(node, COMPREHENSIONS):
            turning = [generator for generator in node.generators if not fixed(generator.iter)]
            return [Loop(line, N_("a comprehension"), depth + 1 + i) for i in range(len(turning))], [
                node.generators[0].iter
            ]
        if isinstance(node, ast.Call):
            name = called(node)
            if name == "iter" and len(node.args) == 2:
                return [Loop(line, N_("a hidden loop (iter with a sentinel)"), depth + 1, hidden=True)], []
            keys = [word.value for word in node.keywords if word.arg == "key"]
            if keys and self.foreign(node.func, scope) in WITH_KEY:
                rest = [part for part in ast.iter_child_nodes(node) if part not in node.keywords]
                return [Loop(line, N_("a hidden loop ({name} with a key)"), depth + 1, True, name)], rest
            if name == "getattr" and any(isinstance(a, ast.Constant) and a.value in DISGUISES for a in node.args):
                return [Loop(line, N_("a hidden loop (through getattr)"), depth + 1, hidden=True)], []
            if self.disguise(node.func, scope):
                return [Loop(line, N_("a hidden loop ({name})"), depth + 1, True, name)], [node.func, *node.args[1:]]
        name = self.disguise(node, scope)  # handed on under another name, or a decorator
        return ([Loop(line, N_("a hidden loop ({name})"), depth + 1, True, name)] if name else []), []

    def disguise(self, node: ast.AST, scope: Scope) -> str:
        """The name of a function that loops, where a node stands for one; empty where it is the student's own."""
        name = self.foreign(node, scope)
        return name if name in DISGUISES else ""


@lru_cache(maxsize=16)
def code_of(source: Source, qualname: str) -> Code:
    """The definition `qualname` of a file. Kept: each rule on it, on each draw, reads the same."""
    return Code(source, qualname)


@lru_cache(maxsize=16)
def looked_at(source: Source) -> frozenset[int]:
    """The expressions (by id) that are looked at and not called: `f` of `f.cache` and of `getattr(f, "cache")`."""
    return frozenset(id(owner) for node in source.nodes for owner in _looked_at(node))


def _looked_at(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Attribute) and node.attr != "__call__":
        return [node.value]
    return node.args[:1] if isinstance(node, ast.Call) and called(node) in ("getattr", "hasattr", "setattr") else []


def called(node: ast.Call) -> str:
    """The last name of what is called: `softmax` of `torch.nn.functional.softmax(x)`."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def fixed(iterable: ast.expr) -> bool:
    """Whether a loop runs a number of times that is written down: over a literal, `range(2)`, or the sizes of a tensor."""
    if isinstance(iterable, (ast.Tuple, ast.List, ast.Set)):
        return not any(isinstance(item, ast.Starred) for item in iterable.elts)
    if isinstance(iterable, ast.Dict):
        return None not in iterable.keys
    if isinstance(iterable, ast.Constant):
        return not isinstance(iterable.value, int) or abs(iterable.value) <= ITERATIONS
    if isinstance(iterable, ast.UnaryOp):
        return fixed(iterable.operand)
    if isinstance(iterable, ast.Subscript):  # x.shape[1:]; a single size is a number, which `range` refuses below
        return isinstance(iterable.slice, ast.Slice) and fixed(iterable.value)
    if isinstance(iterable, ast.Attribute):
        return iterable.attr in ("shape", "ndim")
    if isinstance(iterable, ast.Call):
        name = called(iterable)
        if isinstance(iterable.func, ast.Attribute):
            values = name in ("items", "keys", "values") and fixed(iterable.func.value)
            return values or (name in ("dim", "size") and not iterable.args)
        return name in ("range", "enumerate", "zip", "reversed", "len") and all(map(fixed, iterable.args))
    return False
