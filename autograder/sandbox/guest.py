"""Runs inside a guest: executes sources it is sent, and answers questions about them. Holds no answer of its own.

The student's guest and the oracle run this same code. What a guest says is a claim: the grader checks its form and
judges its values. A request is a dict with a `verb`; the answer echoes the request's number and carries `value` or
`error`, and what was printed meanwhile.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import io
import random
import signal
import socket
import sys
import traceback
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.sandbox import frames, preflight
from autograder.sandbox.frames import Array, Foreign, Handle, Name

PRINT_CAP = 16_384
TEXT_CAP = 2_000
VALUE_CAP = 64 << 20
DTYPES = {getattr(torch, name): name for name in frames.DTYPES}


class Printed(io.TextIOBase):
    """Takes what student code prints, keeps the beginning, counts the rest: 200 MB of output cost no memory."""

    def __init__(self) -> None:
        self.text = ""
        self.cut = 0

    def write(self, text: str) -> int:
        kept = text[: PRINT_CAP - len(self.text)]
        self.text += kept
        self.cut += len(text) - len(kept)
        return len(text)

    def writable(self) -> bool:
        return True

    def take(self) -> str:
        notice = f"\n… {self.cut:,} more characters were printed and cut here." if self.cut else ""
        text, self.text, self.cut = self.text + notice, "", 0
        return text


class Sources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the hand-in's modules from memory. A module that raises at import keeps what it defined before that."""

    def __init__(self, files: dict[str, str], placed: dict[str, str], contract: dict[str, list[str]]) -> None:
        self.files = files  # module name → text
        self.placed = placed  # module name → file name as tracebacks show it
        self.contract = contract  # module name → names that other files may import from it
        self.errors: dict[str, dict[str, Any]] = {}

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
            exec(compile(self.files[name], self.placed[name], "exec", dont_inherit=True), module.__dict__)
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: the definitions before it stand
            self.errors[name] = describe(error, self.placed.values())
        stand_ins = set(self.contract.get(name, ())) - set(vars(module))
        if stand_ins:
            # `from attention import SelfAttention` must not stop a file that can be judged in its other parts.
            why = f"stopped at {self.errors[name]['type']}" if name in self.errors else "does not define it"
            why = why if self.files[name] else "was not handed in"
            module.__dict__["__getattr__"] = lambda part: _stand_in(part, stand_ins, f"{self.placed[name]} {why}")


class MissingPart(Exception):
    """A part of another file of the hand-in is needed that is not there."""


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
        message = str(error)[:TEXT_CAP]
    except BaseException:  # a student's __str__ may itself raise
        message = "(its message cannot be shown)"
    own = set(files)
    place: tuple[str, int] | None = None
    if isinstance(error, SyntaxError) and error.filename in own:
        place = (error.filename or "", error.lineno or 0)
    else:
        try:
            for frame in traceback.walk_tb(error.__traceback__):
                if frame[0].f_code.co_filename in own:
                    place = (frame[0].f_code.co_filename, frame[1])
        except BaseException:  # __traceback__ of a student's exception class may be anything
            place = None
    return {
        "type": type(error).__name__[:TEXT_CAP],
        "message": message,
        "file": place[0] if place else "",
        "line": int(place[1]) if place else 0,
        "unfinished": isinstance(error, NotImplementedError),
    }


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own lack of hints
    """Counts the operations that torch dispatches, by name.

    A hidden loop shows as a count that grows with the length, a ready-made attention or norm as an operation of its name.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        self.operations[name] = self.operations.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


class Guest:
    """The request loop: one instance lives in each guest process."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.objects: list[Any] = []
        self.sources = Sources({}, {}, {})
        self.printed = Printed()
        self.working_on: int | None = None
        self.originals: dict[tuple[str, str], Any] = {}
        self.verbs: dict[str, Callable[[dict[str, Any]], Any]] = {
            "load": self.load,
            "call": self.call,
            "get": self.get,
            "parameters": self.parameters,
            "load_parameters": self.load_parameters,
            "train": self.train,
            "gradients": self.gradients,
            "define": self.define,
            "restore": self.restore,
            "begin": self.begin,
            "preflight": lambda request: preflight.probe(request["secrets"]),
        }

    def serve(self) -> None:
        """Answer requests until the other end closes."""
        # Taken now: student code may replace any attribute later, and must not be able to stop the loop by accident.
        receive, send, printed, alarm = frames.receive, frames.send, self.printed, getattr(signal, "setitimer", None)
        if alarm:
            signal.signal(signal.SIGALRM, self.tell_line)
        while True:
            try:
                request = receive(self.sock)
            except frames.Closed:
                return
            sys.stdout = sys.stderr = printed
            answer: dict[str, Any] = {"id": request["id"]}
            self.working_on = request["id"]
            if alarm:
                alarm(signal.ITIMER_REAL, 0.8 * request["limit"])
            try:
                answer["value"] = self.verbs[request["verb"]](request)
            except BaseException as error:  # a guest answers whatever its code raises, SystemExit included
                answer["error"] = describe(error, self.sources.placed.values())
            self.working_on = None
            if alarm:
                alarm(signal.ITIMER_REAL, 0)
            answer["printed"] = printed.take()
            try:
                send(self.sock, answer)
            except frames.FrameError as error:
                send(self.sock, {"id": request["id"], "error": _plain("ValueError", str(error)), "printed": ""})

    def tell_line(self, signum: int, frame: types.FrameType | None) -> None:
        """Shortly before the grader's patience ends, say where the code is: that a loop is there is worth a line number.

        Only the kill enforces the limit; code that takes this signal away loses nothing but its own line.
        """
        while frame is not None and frame.f_code.co_filename not in self.sources.placed.values():
            frame = frame.f_back
        if frame is not None and self.working_on is not None:
            place = [frame.f_code.co_filename, frame.f_lineno]
            frames.send(self.sock, {"id": self.working_on, "at": place})

    # Verbs -----------------------------------------------------------------------------------------------------------

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Execute modules. `files`: module → (file name, text); `helpers`: the same, found only where nothing else is."""
        files, helpers = dict(request["files"]), dict(request["helpers"])
        everything = {**helpers, **files}
        self.sources.files = {module: text for module, (_, text) in everything.items()}
        self.sources.placed = {module: place for module, (place, _) in everything.items()}
        self.sources.contract = dict(request["contract"])
        self.sources.errors.clear()
        for module in everything:
            if module in files:
                sys.modules.pop(module, None)
        # Own files come first, so that no installed module of the same name is graded in their place; helpers come
        # last, so that a `random.py` in the hand-in shadows nothing.
        sys.meta_path.insert(0, _Only(self.sources, set(files)))
        sys.meta_path.append(_Only(self.sources, set(helpers)))
        for module in files:
            importlib.import_module(module)
        return {
            "errors": dict(self.sources.errors),
            "names": {module: [name for name in vars(sys.modules[module]) if name[:2] != "__"] for module in files},
        }

    def begin(self, request: dict[str, Any]) -> None:
        """Set every random stream and every global mode of torch to a known state: checks do not colour each other."""
        seed = request["seed"]
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        self.objects.clear()

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """Call a name or an object.

        `want`: "inputs" returns them as they are afterwards, "operations" counts what torch dispatches.
        """
        args, kwargs = self._arguments(request)
        target = self._resolve(request["target"])
        want = request.get("want", ())
        answer: dict[str, Any] = {}
        if "operations" in want:
            with Counting() as counting:
                value = target(*args, **kwargs)
            answer["operations"] = counting.operations
        else:
            value = target(*args, **kwargs)
        answer["value"] = self._export(value)
        if "inputs" in want:
            answer["inputs"] = [self._export(item) for item in args]
        return answer

    def get(self, request: dict[str, Any]) -> Any:
        """The value of a name or of an object's attribute."""
        return self._export(self._resolve(request["target"]))

    def parameters(self, request: dict[str, Any]) -> dict[str, Array]:
        """Parameters of a module, by name."""
        module = self._module(request["target"])
        return {name: _array(parameter) for name, parameter in module.named_parameters()}

    def load_parameters(self, request: dict[str, Any]) -> None:
        """Set parameters by name. A name that is missing or has another shape is an error that says which."""
        module = self._module(request["target"])
        own = dict(module.named_parameters())
        with torch.no_grad():
            for name, value in request["values"].items():
                if name not in own:
                    near = f"; it has {', '.join(sorted(own)) or 'none'}"
                    raise AttributeError(f"{type(module).__name__} has no parameter {name}{near}")
                if tuple(own[name].shape) != value.shape:
                    got, wanted = tuple(own[name].shape), value.shape
                    raise ValueError(f"parameter {name} has shape {got}, expected {wanted}")
                tensor = torch.from_numpy(value)
                # The dtype of the probe decides: a float64 probe needs float64 parameters.
                own[name].data = tensor.clone() if own[name].dtype != tensor.dtype else own[name].data.copy_(tensor)

    def train(self, request: dict[str, Any]) -> None:
        """Put a module into train or eval mode."""
        self._module(request["target"]).train(request["mode"])

    def gradients(self, request: dict[str, Any]) -> dict[str, Any]:
        """Gradients of `sum(output · cotangent)` with respect to positional arguments (int) and parameters (str).

        `output` picks one of several returned values. `None` stands for "does not depend on it"; the whole answer says
        `attached: False` where the output has no graph at all.
        """
        args, kwargs = self._arguments(request)
        wrt = request["wrt"]
        for key in wrt:
            if isinstance(key, int):
                args[key] = args[key].detach().requires_grad_(True)
        target = self._resolve(request["target"])
        value = target(*args, **kwargs)
        if request["output"] is not None:
            value = value[request["output"]]
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            return {"value": self._export(value), "attached": False, "gradients": {}}
        named = dict(target.named_parameters()) if isinstance(target, torch.nn.Module) else {}
        inputs = [args[key] if isinstance(key, int) else named[key] for key in wrt]
        cotangent = torch.from_numpy(request["cotangent"]).to(value.dtype).expand(value.shape)
        found = torch.autograd.grad(value, inputs, grad_outputs=cotangent, allow_unused=True)
        named_found = {key: None if item is None else _array(item) for key, item in zip(wrt, found)}
        return {"value": self._export(value), "attached": True, "gradients": named_found}

    def define(self, request: dict[str, Any]) -> None:
        """Oracle only: put another source of a function or class in its place, wherever a file has imported it."""
        module, symbol = sys.modules[request["module"]], request["symbol"]
        original = getattr(module, symbol)
        exec(compile(request["source"], "a mistake", "exec", dont_inherit=True), module.__dict__)
        changed = getattr(module, symbol)
        for name in self.sources.files:
            if vars(sys.modules[name]).get(symbol) in (original, changed):
                self.originals.setdefault((name, symbol), original)
                setattr(sys.modules[name], symbol, changed)

    def restore(self, request: dict[str, Any]) -> None:
        """Oracle only: undo every `define`."""
        del request
        for (module, symbol), original in self.originals.items():
            setattr(sys.modules[module], symbol, original)
        self.originals.clear()

    # Values in and out -----------------------------------------------------------------------------------------------

    def _arguments(self, request: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        args = [self._import(value) for value in request["args"]]
        return args, {key: self._import(value) for key, value in request["kwargs"].items()}

    def _import(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value)
        if isinstance(value, (Handle, Name)):
            return self._resolve(value)
        if isinstance(value, list):
            return [self._import(item) for item in value]
        if isinstance(value, tuple):
            return tuple(self._import(item) for item in value)
        if isinstance(value, dict):
            return {key: self._import(item) for key, item in value.items()}
        return value

    def _resolve(self, target: Handle | Name) -> Any:
        value: Any = self.objects[target.id] if isinstance(target, Handle) else sys.modules[target.module]
        for part in filter(None, target.path.split(".")):
            value = value[int(part)] if part.isdigit() else getattr(value, part)
        return value

    def _module(self, target: Handle | Name) -> torch.nn.Module:
        module = self._resolve(target)
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"{type(module).__name__} is not an nn.Module, so it has no parameters")
        return module

    def _export(self, value: Any) -> Any:
        """A value as something that travels: tensors as arrays, plain values as they are, modules as handles."""
        if isinstance(value, torch.Tensor):
            return _array(value)
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, np.generic):
            return value.item()
        if isinstance(value, tuple):
            return tuple(self._export(item) for item in value)
        if isinstance(value, list):
            return [self._export(item) for item in value]
        if isinstance(value, dict):
            return {key: self._export(item) for key, item in value.items() if isinstance(key, (str, int))}
        if isinstance(value, np.ndarray):
            return Foreign("numpy array", f"shape {value.shape}")
        if isinstance(value, torch.nn.Module) or callable(value):
            self.objects.append(value)
            return Handle(len(self.objects) - 1, type(value).__name__)
        return Foreign(type(value).__name__)


class _Only(importlib.abc.MetaPathFinder):
    """The finder restricted to some names, so that one set of sources can stand at both ends of `sys.meta_path`."""

    def __init__(self, sources: Sources, names: set[str]) -> None:
        self.sources = sources
        self.names = names

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        return self.sources.find_spec(fullname, path, target) if fullname in self.names else None


def _array(tensor: torch.Tensor) -> Any:
    if tensor.device.type != "cpu":
        return Foreign(f"tensor on the device {tensor.device}", f"shape {tuple(tensor.shape)}")
    if tensor.dtype not in DTYPES or tensor.layout is not torch.strided:
        return Foreign(f"tensor of {tensor.dtype}", f"shape {tuple(tensor.shape)}, {tensor.layout}")
    # Asked before memory is taken: `expand` makes a tensor of any size out of four bytes.
    if tensor.numel() * tensor.element_size() > VALUE_CAP:
        return Foreign("tensor too large to be right", f"shape {tuple(tensor.shape)}")
    return np.array(tensor.detach().resolve_conj().resolve_neg().numpy())


def _plain(kind: str, message: str) -> dict[str, Any]:
    return {"type": kind, "message": message, "file": "", "line": 0, "unfinished": False}
