"""What a definition of a hand-in reaches within its file: helpers, aliases, things stored on classes. Read from the syntax
tree, with Python's scopes, so that a name means what it means when the code runs; nothing is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import TypeAlias

from autograder.source import Source

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
DEFS = (ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = (*DEFS, ast.Lambda)
ANCESTORS = 64  # of a class, that are looked at; each `self.…` asks for all of them
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# A local name → the function that it is, the class of which it is the object (`self`), the expression that it is another
# name for, or None: whatever else it may be, it is not the name of the module.
Scope: TypeAlias = dict[str, ast.AST | None]


class Bindings:
    """What the names of a file, and of its classes, stand for."""

    def __init__(self, source: Source) -> None:
        self.names: dict[str, list[ast.AST]] = {}  # of the module → what gives it its value
        self.members: dict[tuple[int, str], list[ast.AST]] = {}  # of a class (by id) → methods, functions stored there
        self.owners: dict[int, ast.ClassDef] = {}  # method (by id) → its class
        self._bind(source.tree.body, certain=True)
        for nodes in list(self.names.values()):
            for node in nodes:
                if isinstance(node, ast.ClassDef):
                    self._collect_members(node)

    def _bind(self, body: Iterable[ast.stmt], certain: bool) -> None:
        """Note what each statement of the module gives a value to; `certain`: it runs, and replaces what was before."""
        for node in body:
            if isinstance(node, (*DEFS, ast.ClassDef)):
                self._note(node.name, node, certain)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                for item in node.names:
                    self._note((item.asname or item.name).split(".")[0], item, certain)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    plain = certain and isinstance(target, ast.Name) and not isinstance(node, ast.AugAssign)
                    parts = [part for part in ast.walk(target) if isinstance(part, (ast.Attribute, ast.Subscript))]
                    for name in _stored([target]) | {_base(part) for part in parts}:
                        self._note(name, node, plain)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                self._note(_changed(node.value), node, False)  # TABLE.append(…), setattr(Holder, …)
            elif not _is_main_guard(node):
                for block in ("body", "orelse", "finalbody"):
                    self._bind(getattr(node, block, []), certain=False)
                for handler in getattr(node, "handlers", []):
                    self._bind(handler.body, certain=False)

    def _note(self, name: str, node: ast.AST, certain: bool) -> None:
        if certain:
            self.names[name] = [node]
        else:
            self.names.setdefault(name, []).append(node)

    def _collect_members(self, owner: ast.ClassDef) -> None:
        for item in owner.body:
            given = item.args.args if isinstance(item, DEFS) and not _is_static(item) else []
            if isinstance(item, DEFS) and given and given[0].arg not in _stored(item.body):
                self.owners[id(item)] = owner
        for node in ast.walk(owner):
            if isinstance(node, DEFS):
                self.members.setdefault((id(owner), node.name), []).append(node)
            elif isinstance(node, ast.Assign) and _is_callable(node.value):
                for target in node.targets:
                    name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
                    self.members.setdefault((id(owner), name), []).append(node)


@lru_cache(maxsize=16)
def bindings_of(source: Source) -> Bindings:
    """The bindings of a file. Kept: every definition in it is read with the same ones."""
    return Bindings(source)


class Reach:
    """A definition (`f`, `Class`, `Class.method`) together with what it uses of the same file."""

    def __init__(self, source: Source, qualname: str) -> None:
        self.source = source
        bindings = bindings_of(source)
        self.names, self.members, self.owners = bindings.names, bindings.members, bindings.owners
        self.roots = self._definition(qualname)

    @cached_property
    def nodes(self) -> list[tuple[ast.AST, Scope]]:
        """Every node of the definition and of what it reaches, each once, with the scope that it stands in."""
        found: dict[int, tuple[ast.AST, Scope]] = {}
        waiting: list[tuple[ast.AST, Scope]] = [(root, {}) for root in self.roots]
        while waiting:
            node, scope = waiting.pop()
            if id(node) not in found:
                found[id(node)] = node, scope
                waiting += self.meant(node, scope)
                waiting += self.children(node, scope)
        return list(found.values())

    def meant(self, node: ast.AST, scope: Scope) -> list[tuple[ast.AST, Scope]]:
        """What of the file a name or an attribute of `self` stands for; nothing for a local value or a foreign name."""
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.id in scope:
                local = scope[node.id]
                return [(local, scope)] if isinstance(local, FUNCTIONS) else []
            return [(found, {}) for found in self.names.get(node.id, [])]
        if isinstance(node, ast.Attribute) and (owner := self.is_self(node.value, scope)):
            return [(found, {}) for base in self._lineage(owner) for found in self._member(base, node.attr)]
        return []

    def is_self(self, node: ast.AST, scope: Scope) -> ast.ClassDef | None:
        """The class, where an expression is the first argument of one of its methods: `self` or however it is called."""
        owner = scope.get(node.id) if isinstance(node, ast.Name) else None
        return owner if isinstance(owner, ast.ClassDef) else None

    def foreign(self, node: ast.AST, scope: Scope) -> str:
        """The last name of something that comes from elsewhere: `softmax` of `F.softmax`, or of an import; else empty."""
        if isinstance(node, ast.Attribute):
            return "" if self.is_self(node.value, scope) else node.attr
        if isinstance(node, ast.alias):
            return node.name.rpartition(".")[2]
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            return "" if node.id in scope or node.id in self.names else node.id
        return ""

    def is_module(self, node: ast.AST, scope: Scope, steps: int = 8) -> bool:
        """Whether an expression may stand for something that was imported, a part of it, or another name for it."""
        if steps == 0:
            return False
        if isinstance(node, ast.Attribute) and self.is_self(node.value, scope):
            stored = [found for found, _ in self.meant(node, scope) if isinstance(found, ast.Assign)]
            return any(self.is_module(found.value, {}, steps - 1) for found in stored)
        if isinstance(node, ast.Attribute):
            return self.is_module(node.value, scope, steps)
        if not isinstance(node, ast.Name):
            return False
        if node.id in scope:
            local = scope[node.id]
            return isinstance(local, (ast.Name, ast.Attribute)) and self.is_module(local, scope, steps - 1)
        given = self.names.get(node.id, [])
        stored = [found for found in given if isinstance(found, ast.Assign)]
        imported = not given or any(isinstance(found, ast.alias) for found in given)
        return imported or any(self.is_module(found.value, {}, steps - 1) for found in stored)

    def children(self, node: ast.AST, scope: Scope) -> list[tuple[ast.AST, Scope]]:
        """The parts of a node that run, each with its scope. Annotations do nothing, and are left out."""
        if isinstance(node, FUNCTIONS):
            outside = [*node.args.defaults, *(item for item in node.args.kw_defaults if item)]
            outside += [] if isinstance(node, ast.Lambda) else node.decorator_list
            body = [node.body] if isinstance(node, ast.Lambda) else node.body
            inside = {**scope, **_locals(node)}
            if id(node) in self.owners:
                inside[node.args.args[0].arg] = self.owners[id(node)]
            return [(part, scope) for part in outside] + [(part, inside) for part in body]
        if isinstance(node, ast.ClassDef):
            parts = [*node.decorator_list, *node.bases, *(word.value for word in node.keywords), *node.body]
            return [(part, scope) for part in parts]
        if isinstance(node, COMPREHENSIONS):
            names = {name for generator in node.generators for name in _stored([generator.target])}
            inside = {**scope, **dict.fromkeys(names)}
            first = node.generators[0].iter
            return [(first, scope), *((part, inside) for part in _within(node) if part is not first)]
        if isinstance(node, ast.AnnAssign):
            return [(part, scope) for part in (node.target, node.value) if part]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
            return []
        return [(part, scope) for part in ast.iter_child_nodes(node)]

    def _member(self, owner: ast.ClassDef, name: str) -> list[ast.AST]:
        """What a class has under a name, and what the module stores there: `Owner.name = …`"""
        stored = [
            node for node in self.names.get(owner.name, []) if isinstance(node, ast.Assign) and _gives(node, name)
        ]
        return [*self.members.get((id(owner), name), []), *stored]

    def _lineage(self, owner: ast.ClassDef) -> list[ast.ClassDef]:
        """A class and those that it derives from, as far as they stand in the same file."""
        found: list[ast.ClassDef] = []
        waiting: list[ast.AST] = [owner]
        while waiting and len(found) < ANCESTORS:
            node = waiting.pop(0)
            if isinstance(node, ast.ClassDef) and node not in found:
                found.append(node)
                waiting += [
                    item for base in node.bases if isinstance(base, ast.Name) for item in self.names.get(base.id, [])
                ]
        return found

    def _definition(self, qualname: str) -> list[ast.AST]:
        owner, _, method = qualname.rpartition(".")
        if not owner:
            return self.names.get(qualname, [])
        for name_node in self.names.get(owner, []):
            if not isinstance(name_node, ast.ClassDef):
                continue
            for base in self._lineage(name_node):
                given = [item for item in base.body if _is_named(item, method)][-1:]  # of several the last one counts
                given += [
                    node for node in self._member(base, method) if isinstance(node, ast.Assign) and node not in given
                ]
                if given:
                    return [*given]
        return []


def _locals(function: FunctionNode) -> Scope:
    """The names that are local to a function, and which of them are functions defined in it."""
    every = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    every += [item for item in (function.args.vararg, function.args.kwarg) if item]
    found: Scope = dict.fromkeys(item.arg for item in every)
    if isinstance(function, ast.Lambda):
        return found
    found |= dict.fromkeys(_stored(function.body))
    for node in _same_scope(function.body):
        if isinstance(node, DEFS):
            found[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.value, (ast.Lambda, ast.Name, ast.Attribute)):
            found |= {target.id: node.value for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.Global):
            found = {name: value for name, value in found.items() if name not in node.names}
    return found


def _stored(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that get a value in these nodes, functions inside them left out."""
    found: set[str] = set()
    for node in _same_scope(nodes):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, (*DEFS, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
    return found


def _same_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef, *COMPREHENSIONS)):
            waiting += ast.iter_child_nodes(node)


def _within(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> Iterator[ast.AST]:
    yield from (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
    for generator in node.generators:
        yield from (generator.iter, *generator.ifs)


def _base(node: ast.AST) -> str:
    """`Holder` of `Holder.attend`, `TABLE` of `TABLE["x"]`."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _changed(call: ast.Call) -> str:
    """What a bare call at module level may change: the object whose method it is, or the one that `setattr` is given."""
    if isinstance(call.func, ast.Name):
        return _base(call.args[0]) if call.func.id == "setattr" and call.args else ""
    return _base(call.func)


def _gives(node: ast.Assign, method: str) -> bool:
    """`Owner.method = …`"""
    return any(isinstance(target, ast.Attribute) and target.attr == method for target in node.targets)


def _is_named(node: ast.stmt, name: str) -> bool:
    if isinstance(node, DEFS):
        return node.name == name
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)


def _is_static(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(item, ast.Name) and item.id == "staticmethod" for item in function.decorator_list)


def _is_callable(value: ast.expr) -> bool:
    """Whether a stored value may be a function: `lambda`, another name for one, or a call that makes one."""
    makes = ("partial", "staticmethod", "classmethod", "getattr")
    if isinstance(value, ast.Call) and isinstance(value.func, (ast.Name, ast.Attribute)):
        return (value.func.id if isinstance(value.func, ast.Name) else value.func.attr) in makes
    return isinstance(value, (ast.Lambda, ast.Name, ast.Attribute))


def _is_main_guard(node: ast.stmt) -> bool:
    """`if __name__ == "__main__":` holds the student's own trials, which the grader never runs."""
    return isinstance(node, ast.If) and any(
        isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test)
    )
