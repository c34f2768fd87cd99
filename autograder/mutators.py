"""Operators for tensor code: for one node of a solution, what could stand there by mistake.

Each operator yields replacements of the node that it is given. Their order in OPERATORS is the order of the mutants.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from autograder.syntax import (
    Scope,
    called,
    exchanged,
    integer,
    is_iterated,
    is_result,
    method_of,
    negated,
    number,
    of_shape,
    other_axes,
    plus,
    returned_by,
    with_argument,
)

Operator = Callable[[ast.AST, Scope], Iterator[ast.AST]]

# Functions whose plain arguments are axes; the number says which argument is the first one.
AXES = {
    **dict.fromkeys(("sum", "mean", "var", "softmax", "log_softmax", "any", "all", "squeeze", "unsqueeze"), 0),
    **dict.fromkeys(("flatten", "flip", "cumsum", "amax", "amin", "argmax", "size", "sort", "unbind"), 0),
    **dict.fromkeys(("cat", "stack"), 1),
}
TRANSPOSES = ("transpose", "swapaxes", "permute")
# What is called instead; "" leaves the operand as it is.
METHODS = {
    "softmax": ("sigmoid", "log_softmax", ""),
    "tanh": ("sigmoid", ""),
    "relu": ("sigmoid", ""),
    "sqrt": ("",),
    "square": ("abs", ""),
    "abs": ("",),
    "sum": ("mean",),
    "mean": ("sum",),
    "max": ("min", "mean"),
    "any": ("all",),
    "all": ("any",),
    "cat": ("stack",),
    "stack": ("cat",),
    "entr": ("",),
    "uniform_": ("normal_",),
    "zeros": ("ones", "randn"),
    "ones": ("zeros", "randn"),
    "randn": ("zeros", "ones"),
    "eval": ("train",),
    "no_grad": ("enable_grad",),
    "reshape": ("view",),
    "float": ("",),
    "Parameter": ("",),
}
ELEMENTWISE = ("sigmoid", "abs")  # take no axis
BINARY: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq, ast.Gt),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
IN_PLACE: dict[type[ast.operator], str] = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_", ast.Div: "div_"}


def axis(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """Another axis: `dim=`, plain arguments of functions that take one, and what is asked of a shape."""
    if isinstance(node, ast.keyword) and node.arg in ("dim", "axis"):
        for other in other_axes(node.value):
            yield ast.keyword(node.arg, other)
    if isinstance(node, ast.Call):
        for at in range(AXES.get(called(node), len(node.args)), len(node.args)):
            for other in other_axes(node.args[at]):
                yield with_argument(node, at, other)
    if isinstance(node, ast.Subscript) and of_shape(node):
        for other in other_axes(node.slice):
            yield ast.Subscript(node.value, other, ast.Load())


def transpose(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """No transpose, or one of other axes."""
    if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield node.value
    if isinstance(node, ast.Call) and called(node) in TRANSPOSES and isinstance(node.func, ast.Attribute):
        yield node.func.value
        for at, item in enumerate(node.args):
            for other in other_axes(item):
                yield with_argument(node, at, other)


def scale(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """A power with the other sign, its square, no power; a factor or divisor left out."""
    if not isinstance(node, ast.BinOp):
        return
    if isinstance(node.op, ast.Pow):
        yield ast.BinOp(node.left, ast.Pow(), negated(node.right))
        yield ast.BinOp(node.left, ast.Pow(), ast.BinOp(ast.Constant(2), ast.Mult(), node.right))
        yield node.left
    if isinstance(node.op, (ast.Mult, ast.Div, ast.FloorDiv)):
        yield node.left
    if isinstance(node.op, ast.Mult):
        yield node.right


def operands(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """Operands in the other order, where the order matters."""
    if isinstance(node, ast.BinOp) and not isinstance(node.op, (ast.Add, ast.Mult, ast.Pow)):
        yield ast.BinOp(node.right, node.op, node.left)


def operator(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """Another arithmetic operator."""
    if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
        yield ast.BinOp(node.left, BINARY[type(node.op)](), node.right)


def summand(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """One side of a sum or difference left out: the residual, the mean, epsilon."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield node.left
        yield node.right


def bias(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """A linear layer without its bias, or with one that it should not have."""
    if isinstance(node, ast.Call) and called(node) == "Linear":
        others = [item for item in node.keywords if item.arg != "bias"]
        without = [*others, ast.keyword("bias", ast.Constant(False))]
        yield ast.Call(node.func, node.args, others if len(others) < len(node.keywords) else without)


def arguments(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """Two neighbouring arguments in the other order."""
    if isinstance(node, ast.Call) and called(node) not in TRANSPOSES:
        for at in range(len(node.args) - 1):
            yield ast.Call(node.func, exchanged(node.args, at), node.keywords)


def sibling(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """Another attribute of the same kind (`self.q` for `self.k`), another argument or tensor of the function."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and ast.unparse(node.value) == "self":
        kind = scope.attributes.get(node.attr)
        for name, other in scope.attributes.items():
            if other == kind and name != node.attr:
                yield ast.Attribute(node.value, name, ast.Load())
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        for name in scope.like(node.id, node.lineno):
            yield ast.Name(name, ast.Load())


def mask(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """A mask that is dropped or inverted."""
    if not isinstance(node, ast.Call):
        return
    if called(node) == "masked_fill" and isinstance(node.func, ast.Attribute):
        yield node.func.value
        yield with_argument(node, 0, ast.UnaryOp(ast.Invert(), node.args[0]))
        return
    for at, item in enumerate(node.args):
        if isinstance(item, ast.Name) and "None" in scope.parameters.get(item.id, ""):
            yield with_argument(node, at, ast.Constant(None))
            absent = ast.Compare(item, [ast.Is()], [ast.Constant(None)])
            yield with_argument(node, at, ast.IfExp(absent, item, ast.UnaryOp(ast.Invert(), item)))


def comparison(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """The comparison flipped, or its border moved."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in COMPARISONS.get(type(node.ops[0]), ()):
            yield ast.Compare(node.left, [other()], node.comparators)


def off_by_one(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """A range, slice or iteration with one too few or too many; an iteration backwards."""
    if isinstance(node, ast.Call) and called(node) == "range" and node.args:
        last = min(len(node.args) - 1, 1)
        yield with_argument(node, last, plus(node.args[last], -1))
        if last == 0:
            yield ast.Call(node.func, [ast.Constant(1), *node.args], [])
    if isinstance(node, ast.Slice):
        for by in (1, -1):
            if node.lower is not None:
                yield ast.Slice(plus(node.lower, by), node.upper, node.step)
            if node.upper is not None:
                yield ast.Slice(node.lower, plus(node.upper, by), node.step)
    if isinstance(node, ast.expr) and is_iterated(node, scope) and called(node) != "range":
        yield ast.Call(ast.Name("reversed", ast.Load()), [node], [])
        yield ast.Subscript(node, ast.Slice(ast.Constant(1)), ast.Load())
        yield ast.Subscript(node, ast.Slice(None, integer(-1)), ast.Load())


def constant(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """Another constant. A negative number is one: its digits are left alone."""
    value = number(node) if isinstance(node, ast.UnaryOp) else getattr(node, "value", None)
    if not isinstance(node, (ast.Constant, ast.UnaryOp)) or number(scope.parents[node]) is not None:
        return
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int):
        yield integer(value + 1)
        yield integer(value - 1)
    elif isinstance(value, float) and value == 1e9:
        yield ast.Constant(1e2)
        yield ast.UnaryOp(ast.USub(), ast.Constant(1e9))
        yield ast.Call(ast.Name("float", ast.Load()), [ast.Constant("inf")], [])
    elif isinstance(value, float):
        yield ast.Constant(round(value * 1.1, 6))
    elif isinstance(value, str):
        yield ast.Constant(f"{value}_")


def dtype(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """A result that comes out as float64, or rounded to float32."""
    if is_result(node, scope):
        yield method_of(node, "double")
        yield method_of(node, "float")


def detached(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """A result that is cut off from the graph."""
    if is_result(node, scope):
        yield method_of(node, "detach")


def in_place(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """An argument that is changed: by what ends in `_`, or once the result is there."""
    inputs = [name for name, annotation in scope.parameters.items() if annotation in ("Tensor", "Tensor | None")]
    if isinstance(node, ast.BinOp) and ast.unparse(node.left) in inputs and type(node.op) in IN_PLACE:
        yield method_of(node.left, IN_PLACE[type(node.op)], node.right)
    if isinstance(node, ast.Call) and ast.unparse(node.func).removesuffix(".masked_fill") in inputs:
        yield _renamed(node, "masked_fill_")
    if isinstance(node, ast.expr) and returned_by(node, scope):
        for name in inputs:
            there = ast.Name(name, ast.Load())
            absent = ast.Compare(there, [ast.Is()], [ast.Constant(None)])
            cleared = method_of(there, "zero_")
            optional = "None" in scope.parameters[name]
            then = ast.BoolOp(ast.Or(), [absent, cleared]) if optional else cleared
            yield ast.Subscript(ast.Tuple([node, then], ast.Load()), ast.Constant(0), ast.Load())


def returned(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """Two returned values in the other order."""
    if isinstance(node, ast.Tuple) and returned_by(node, scope):
        for at in range(len(node.elts) - 1):
            yield ast.Tuple(exchanged(node.elts, at), ast.Load())


def condition(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """A condition negated; one branch of an expression whatever the condition says."""
    above = scope.parents[node]
    if isinstance(above, (ast.If, ast.IfExp, ast.While)) and node is above.test and not isinstance(node, ast.Compare):
        yield ast.UnaryOp(ast.Not(), node)
    if isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse


def method(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """Another function in place of a known one, or none."""
    if not isinstance(node, ast.Call):
        return
    for name in METHODS.get(called(node), ()):
        yield _renamed(node, name) if name else _operand(node)
    if called(node) == "ModuleList":
        yield ast.Call(ast.Name("list", ast.Load()), node.args, [])


def shared(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """One object many times, where there should be many."""
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)) and called(node.generators[0].iter) == "range":
        times = node.generators[0].iter
        assert isinstance(times, ast.Call)
        if not {item.id for item in ast.walk(node.elt) if isinstance(item, ast.Name)} & _targets(node):
            yield ast.BinOp(ast.List([node.elt], ast.Load()), ast.Mult(), times.args[-1])


def exception(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """Another exception."""
    if isinstance(node, ast.Name) and node.id == "ValueError":
        yield ast.Name("TypeError", ast.Load())


def deleted(node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
    """A statement left out: a call, a condition with what it guards, what is stored in an object or an argument."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
    stored = any(isinstance(item, ast.Attribute) or ast.unparse(item) in scope.parameters for item in targets)
    if stored or isinstance(node, (ast.Expr, ast.If, ast.Raise, ast.AugAssign)):
        yield ast.Pass()


OPERATORS: dict[str, Operator] = {
    "axis": axis,
    "transpose": transpose,
    "scale": scale,
    "operands swapped": operands,
    "operator": operator,
    "summand dropped": summand,
    "bias": bias,
    "arguments swapped": arguments,
    "sibling": sibling,
    "mask": mask,
    "comparison": comparison,
    "off by one": off_by_one,
    "constant": constant,
    "dtype": dtype,
    "detached": detached,
    "in place": in_place,
    "returned": returned,
    "condition": condition,
    "method": method,
    "shared": shared,
    "exception": exception,
    "deleted": deleted,
}


def _is_function(node: ast.Call) -> bool:
    """`torch.sqrt(x)` or `float(x)`, not `x.sqrt()`."""
    return isinstance(node.func, ast.Name) or re.fullmatch(r"(torch|nn)[\w.]*", ast.unparse(node.func)) is not None


def _operand(node: ast.Call) -> ast.expr:
    """What a function or method is applied to."""
    return node.func.value if isinstance(node.func, ast.Attribute) and not _is_function(node) else node.args[0]


def _renamed(node: ast.Call, name: str) -> ast.Call:
    assert isinstance(node.func, ast.Attribute)
    kept = node.args[: 1 if _is_function(node) else 0] if name in ELEMENTWISE else node.args
    return ast.Call(
        ast.Attribute(node.func.value, name, ast.Load()), kept, [] if name in ELEMENTWISE else node.keywords
    )


def _targets(node: ast.GeneratorExp | ast.ListComp) -> set[str]:
    return {item.id for made in node.generators for item in ast.walk(made.target) if isinstance(item, ast.Name)}
