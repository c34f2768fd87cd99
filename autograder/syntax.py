"""Around a node of a solution: its function and class, what their names mean, where its value goes; and making new nodes."""

from __future__ import annotations

import ast
from functools import cached_property

# Calls of plain names that give no tensor; every other function of a lab does.
NO_TENSOR = ("float", "int", "len", "range", "list", "dict", "tuple", "getattr", "reversed", "enumerate", "zip")


class Scope:
    """A function with the class that it stands in. `parents` leads from each node to the one above."""

    def __init__(self, function: ast.FunctionDef, owner: ast.ClassDef | None) -> None:
        self.function = function
        self.owner = owner
        self.parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}

    @cached_property
    def parameters(self) -> dict[str, str]:
        """The function's arguments and their annotations."""
        arguments = [*self.function.args.posonlyargs, *self.function.args.args, *self.function.args.kwonlyargs]
        return {item.arg: ast.unparse(item.annotation) for item in arguments if item.annotation}

    @cached_property
    def attributes(self) -> dict[str, str]:
        """The attributes that the class declares, and their annotations."""
        declared = [node for node in self.owner.body if isinstance(node, ast.AnnAssign)] if self.owner else []
        return {ast.unparse(node.target): ast.unparse(node.annotation) for node in declared}

    @cached_property
    def locals(self) -> dict[str, int]:
        """Names that the function gives a tensor to, and the line from which on they hold it."""
        found: dict[str, int] = {}
        for node in ast.walk(self.function):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None and is_tensor(node.value):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            elif isinstance(node, ast.For) and _root(node.iter) in self._given:
                targets = [node.target]
            else:
                continue
            for target in targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, node.lineno)
        return found

    @cached_property
    def _given(self) -> list[str]:
        return [name for name, annotation in self.parameters.items() if annotation == "Tensor"]

    def like(self, name: str, line: int) -> list[str]:
        """Other names that may stand for `name` on a line: of tensors all of them, else arguments of the same type."""
        tensors = list(dict.fromkeys([*self._given, *(other for other, first in self.locals.items() if first < line)]))
        if name in tensors:
            return [other for other in tensors if other != name]
        kind = self.parameters.get(name)
        return [other for other, annotation in self.parameters.items() if annotation == kind and other != name]

    @property
    def returns_tensor(self) -> bool:
        """Whether something that the function returns is a tensor."""
        return self.function.returns is not None and "Tensor" in ast.unparse(self.function.returns)


def called(node: ast.AST) -> str:
    """The last name of what a call calls; empty for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def is_tensor(value: ast.expr) -> bool:
    """Whether an expression is plainly one whose value is a tensor."""
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ast.MatMult) or is_tensor(value.left) or is_tensor(value.right)
    made = isinstance(value, ast.Call) and called(value) not in NO_TENSOR
    return made and not ast.unparse(value).startswith("nn.")


def returned_by(node: ast.AST, scope: Scope) -> bool:
    """Whether a node is what a `return` gives back, as a whole."""
    return isinstance(scope.parents[node], ast.Return)


def is_result(node: ast.AST, scope: Scope) -> bool:
    """Whether a node is a tensor that is returned, alone or among others, or is kept in a local name."""
    above = scope.parents[node]
    if not scope.returns_tensor or not isinstance(node, ast.expr):
        return False
    if isinstance(above, ast.Tuple) and returned_by(above, scope):
        return True
    if returned_by(node, scope):
        return not isinstance(node, ast.Tuple)
    if isinstance(above, (ast.Assign, ast.AnnAssign)) and node is above.value and is_tensor(node):
        targets = above.targets if isinstance(above, ast.Assign) else [above.target]
        return all(isinstance(target, ast.Name) for target in targets)
    return False


def is_iterated(node: ast.AST, scope: Scope) -> bool:
    """Whether a loop or comprehension with a target that is used runs over this."""
    above = scope.parents[node]
    return isinstance(above, (ast.For, ast.comprehension)) and node is above.iter and ast.unparse(above.target) != "_"


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


# New nodes


def other_axes(node: ast.expr) -> list[ast.expr]:
    value = number(node)
    others = {-1: (-2,), -2: (-1,), 0: (1,), 1: (0, 2), 2: (1,), 3: (2,)}
    return [integer(other) for other in others.get(value, ())] if value is not None else []


def number(node: ast.AST) -> int | None:
    """The value of an int that is written out, with or without a minus."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = number(node.operand)
        return None if value is None else -value
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def integer(value: int) -> ast.expr:
    return ast.UnaryOp(ast.USub(), ast.Constant(-value)) if value < 0 else ast.Constant(value)


def plus(node: ast.expr, by: int) -> ast.expr:
    value = number(node)
    if value is not None:
        return integer(value + by)
    return ast.BinOp(node, ast.Add() if by > 0 else ast.Sub(), ast.Constant(abs(by)))


def negated(node: ast.expr) -> ast.expr:
    minus = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    return node.operand if isinstance(node, ast.UnaryOp) and minus else ast.UnaryOp(ast.USub(), node)


def of_shape(node: ast.Subscript) -> bool:
    return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"


def with_argument(node: ast.Call, at: int, value: ast.expr) -> ast.Call:
    return ast.Call(node.func, [*node.args[:at], value, *node.args[at + 1 :]], node.keywords)


def exchanged(items: list[ast.expr], at: int) -> list[ast.expr]:
    return [*items[:at], items[at + 1], items[at], *items[at + 2 :]]


def method_of(node: ast.AST, name: str, *arguments: ast.expr) -> ast.Call:
    assert isinstance(node, ast.expr)
    return ast.Call(ast.Attribute(node, name, ast.Load()), list(arguments), [])
