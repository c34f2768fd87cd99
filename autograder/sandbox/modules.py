"""Runs inside a guest: imports a hand-in from memory, and says in plain values what went wrong in it."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
import traceback
import types
from collections.abc import Iterable
from typing import Any

import torch

TEXT_CAP = 2_000
NAME_CAP = 200
ABSENT_CAP = 16


class Sources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the hand-in's modules from memory. A module that raises at import keeps what it defined before that."""

    def __init__(self, files: dict[str, str], placed: dict[str, str], contract: dict[str, list[str]]) -> None:
        self.files = files  # module name → text
        self.placed = placed  # module name → file name as tracebacks show it
        self.contract = contract  # module name → names that other files may import from it
        self.errors: dict[str, dict[str, Any]] = {}
        self.absent: list[str] = []  # packages that a file imports and that are not installed here

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname in self.files:
            return importlib.util.spec_from_loader(fullname, self, origin=self.placed[fullname])
        return None

    def get_source(self, fullname: str) -> str:
        return self.files[fullname]

    def exec_module(self, module: types.ModuleType) -> None:
        name = module.__name__
        module.__file__ = self.placed[name]
        try:
            self._execute(module)
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: the definitions before it stand
            self.errors[name] = describe(error, self.placed.values())
        stand_ins = set(self.contract.get(name, ())) - set(vars(module))
        if stand_ins:
            # `from attention import SelfAttention` must not stop a file that can be judged in its other parts.
            why = f"stopped at {self.errors[name]['type']}" if name in self.errors else "does not define it"
            why = why if self.files[name] else "was not handed in"
            module.__dict__["__getattr__"] = lambda part: _stand_in(part, stand_ins, f"{self.placed[name]} {why}")

    def _execute(self, module: types.ModuleType) -> None:
        """Run the module's text; a package that is not installed (a plotting library) does not cost what is below it.

        The text runs as it is first: `try: import x` with a way round is the student's own answer to a missing package.
        """
        code = compile(self.files[module.__name__], self.placed[module.__name__], "exec", dont_inherit=True)
        for _ in range(ABSENT_CAP):
            try:
                return exec(code, module.__dict__)
            except Exception as error:
                name = self._absent_package(error)
                if not name or name in self.absent:
                    raise
                self.absent.append(name)
                _put_absent(name)
        return exec(code, module.__dict__)

    def _absent_package(self, error: Exception) -> str:
        """The package that an import of the hand-in could not get; empty where something else went wrong.

        One that is installed may fail, too: matplotlib looks for a home directory, and there is none in a sandbox.
        """
        if isinstance(error, ModuleNotFoundError):
            name = error.name or ""
            return "" if name in self.files or name in sys.modules else name
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        own = [frame.f_code.co_filename in self.placed.values() for frame in frames]
        below = frames[len(own) - own[::-1].index(True) :] if any(own) else []
        if not below or below[0].f_code.co_name != "<module>":  # not while something is imported
            return ""
        package = str(below[0].f_globals.get("__name__", "")).partition(".")[0]
        return "" if package == "torch" or package in sys.stdlib_module_names else package


class MissingPart(Exception):
    """A part of another file of the hand-in, or a package, is needed that is not there."""


def _put_absent(name: str) -> None:
    """A module in the place of one that is not installed; what is taken from it says so when it is used."""
    absent = types.ModuleType(name)
    absent.__path__ = []
    absent.__dict__["__getattr__"] = lambda part: _nothing(name, part)
    sys.modules[name] = absent
    parent, _, child = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], child, absent)


def _nothing(package: str, part: str) -> type:
    if part[:2] == "__":
        raise AttributeError(part)

    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise MissingPart(f"this needs {package.partition('.')[0]}, which is not installed in the grader")

    return type(part, (), {"__init__": refuse})


class WrongForm(Exception):
    """Something of the hand-in is not of the form that a question needs; a sentence of ours, no exception of its code."""


def _stand_in(name: str, known: set[str], why: str) -> type:
    """Takes the place of a name that the contract has and the file has not; says so when it is used."""
    if name not in known:
        raise AttributeError(name)

    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise MissingPart(f"this needs {name}, and {why}")

    return type(name, (torch.nn.Module,), {"__init__": refuse})


def describe(error: BaseException, files: Iterable[str]) -> dict[str, Any]:
    """An exception as plain values: type, message, and the last place in the hand-in's own files."""
    try:
        return _described(error, set(files))
    except BaseException:  # a student's exception class may raise whatever it is asked
        return plain("Exception", "it cannot be shown")


def _described(error: BaseException, own: set[str]) -> dict[str, Any]:
    try:
        message = cut(str(error), TEXT_CAP)
    except BaseException:  # a student's __str__ may itself raise
        message = "(its message cannot be shown)"
    last, place = "", ("", 0)
    if isinstance(error, SyntaxError) and error.filename in own:
        place = (str(error.filename), error.lineno or 0)
    else:
        for frame, line in traceback.walk_tb(error.__traceback__):
            last = frame.f_code.co_filename
            place = (last, line or 0) if last in own else place
    return {
        "type": "MemoryError" if isinstance(error, MemoryError) else cut(type(error).__name__, NAME_CAP),
        "message": message,
        "file": place[0],
        "line": int(place[1]),
        # torch raises it, too: for a module without `forward`, for an operation that a dtype does not have.
        "unfinished": isinstance(error, NotImplementedError) and last in own,
    }


def cut(text: str, length: int) -> str:
    """The beginning of a text."""
    return str.__getitem__(text, slice(length))  # a student's kind of text may have its own idea of slicing


class Only(importlib.abc.MetaPathFinder):
    """The finder restricted to some names, so that one set of sources can stand at both ends of `sys.meta_path`."""

    def __init__(self, sources: Sources, names: set[str]) -> None:
        self.sources = sources
        self.names = names

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        return self.sources.find_spec(fullname, path, target) if fullname in self.names else None


def names_of(module: str) -> list[str]:
    """The names that an imported module of the hand-in has."""
    found = getattr(sys.modules.get(module), "__dict__", {})
    return [name for name in found if isinstance(name, str) and name[:2] != "__"]


def plain(kind: str, message: str) -> dict[str, Any]:
    """What went wrong without a place in the hand-in, in the form of `describe`."""
    return {"type": kind, "message": message, "file": "", "line": 0, "unfinished": False}
