"""Runs inside a guest: executes sources it is sent, and answers questions about them. Holds no answer of its own.

The student's guest and the oracle run this same code. What a guest says is a claim: the grader checks its form and
judges its values. A request is a dict with a `verb`; the answer echoes the request's number and carries `value` or
`error`, and what was printed meanwhile.
"""

from __future__ import annotations

import contextlib
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
NAME_CAP = 200
VALUE_CAP = 16 << 20
DEPTH_CAP = 32
BITS_CAP = 4096  # of an integer
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

    def close(self) -> None:
        """Stays open: code that closes its standard output still has later prints kept."""

    def take(self) -> tuple[str, int]:
        """What was printed since the last time, and how many characters more were not kept."""
        taken, self.text, self.cut = (self.text, self.cut), "", 0
        return taken


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
        return _plain("Exception", "it cannot be shown")


def _described(error: BaseException, own: set[str]) -> dict[str, Any]:
    try:
        message = _cut(str(error), TEXT_CAP)
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
        "type": "MemoryError" if isinstance(error, MemoryError) else _cut(type(error).__name__, NAME_CAP),
        "message": message,
        "file": place[0],
        "line": int(place[1]),
        # torch raises it, too: for a module without `forward`, for an operation that a dtype does not have.
        "unfinished": isinstance(error, NotImplementedError) and last in own,
    }


def _cut(text: str, length: int) -> str:
    return str.__getitem__(text, slice(length))  # a student's kind of text may have its own idea of slicing


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
        self.objects: dict[int, Any] = {}
        self.next_object = 0
        self.sources = Sources({}, {}, {})
        self.printed = Printed()
        self.working_on: int | None = None  # the request at work, until its line was told
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
        receive, pack, send, alarm = frames.receive, frames.pack, frames.send_packed, getattr(signal, "setitimer", None)
        with contextlib.suppress(frames.Closed):
            while True:
                request = receive(self.sock)
                if alarm:
                    signal.signal(signal.SIGALRM, self.tell_line)
                    alarm(signal.ITIMER_REAL, 0.8 * request["limit"])
                answer = self.answer(request)
                self.working_on = None
                if alarm:
                    alarm(signal.ITIMER_REAL, 0)
                try:
                    packed = pack(answer, frames.ANSWER_CAP)
                except frames.FrameError as error:
                    packed = pack({"id": request["id"], "error": _plain("WrongForm", f"what came back: {error}")})
                except BaseException:  # out of memory, or a value that raises when it is looked at
                    packed = pack({"id": request["id"], "error": _plain("WrongForm", "what came back cannot be sent")})
                send(self.sock, packed)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request, whatever the code that it runs does."""
        sys.stdout = sys.stderr = self.printed
        answer: dict[str, Any] = {"id": request["id"]}
        self.working_on = request["id"]
        try:
            answer["value"] = self.verbs[request["verb"]](request)
        except BaseException as error:  # a guest answers whatever its code raises, SystemExit included
            answer["error"] = describe(error, self.sources.placed.values())
        answer["printed"] = self.printed.take()
        return answer

    def tell_line(self, signum: int, frame: types.FrameType | None) -> None:
        """Shortly before the grader's patience ends, say where the code is: that a loop is there is worth a line number.

        Only the kill enforces the limit; code that takes this signal away loses nothing but its own line.
        """
        while frame is not None and frame.f_code.co_filename not in self.sources.placed.values():
            frame = frame.f_back
        if frame is not None and self.working_on is not None:
            place = [frame.f_code.co_filename, frame.f_lineno]
            told, self.working_on = self.working_on, None
            frames.send(self.sock, {"id": told, "at": place})

    # Verbs -----------------------------------------------------------------------------------------------------------

    def load(self, request: dict[str, Any]) -> dict[str, Any]:
        """Execute modules. `files`: module → (file name, UTF-8); `helpers`: the same, found only where nothing else is."""
        files, helpers = dict(request["files"]), dict(request["helpers"])
        everything = {**helpers, **files}
        self.sources.files = {m: text.decode("utf-8", "surrogatepass") for m, (_, text) in everything.items()}
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
            try:
                importlib.import_module(module)
            except BaseException as error:  # the module took itself out of sys.modules, or put something else there
                self.sources.errors.setdefault(module, describe(error, self.sources.placed.values()))
        return {"errors": dict(self.sources.errors), "names": {module: _names(module) for module in files}}

    def begin(self, request: dict[str, Any]) -> None:
        """Set every random stream and every global mode of torch to a known state: checks do not colour each other."""
        seed = request["seed"]
        self.objects.clear()
        self.next_object = request.get("first", 0)
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        if torch.get_default_device().type != "cpu":
            torch.set_default_device("cpu")
        torch.set_autocast_enabled("cpu", False)
        torch.set_float32_matmul_precision("highest")
        if torch.are_deterministic_algorithms_enabled():
            torch.use_deterministic_algorithms(False)
        torch.autograd.set_detect_anomaly(False)

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
                    near = f"; it has {_listed(own)}"
                    raise WrongForm(f"{type(module).__name__} has no parameter {name}{near}")
                if tuple(own[name].shape) != value.shape:
                    got, wanted = tuple(own[name].shape), value.shape
                    raise WrongForm(f"parameter {name} has shape {got}, expected {wanted}")
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
        output = request["output"]
        if output is not None:
            if not isinstance(value, (tuple, list)) or not output < len(value):
                raise WrongForm(
                    f"a {_cut(type(value).__name__, NAME_CAP)} came back, expected {output + 1} values at least"
                )
            value = value[output]
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            return {"value": self._export(value), "attached": False, "gradients": {}}
        named = dict(target.named_parameters()) if isinstance(target, torch.nn.Module) else {}
        for key in wrt:
            if isinstance(key, str) and key not in named:
                raise WrongForm(f"{type(target).__name__} has no parameter {key}; it has {_listed(named)}")
        inputs = [args[key] if isinstance(key, int) else named[key] for key in wrt]
        cotangent = torch.from_numpy(request["cotangent"]).to(value.dtype)
        if cotangent.dim() and cotangent.shape != value.shape:
            raise WrongForm(f"the output has shape {tuple(value.shape)}, expected {tuple(cotangent.shape)}")
        found = torch.autograd.grad(value, inputs, grad_outputs=cotangent.expand(value.shape), allow_unused=True)
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
        if isinstance(target, Handle) and target.id not in self.objects:
            raise WrongForm("an object that is needed here was lost when its process was stopped")
        value: Any = self.objects[target.id] if isinstance(target, Handle) else sys.modules[target.module]
        for part in filter(None, target.path.split(".")):
            value = value[int(part)] if part.isdigit() else getattr(value, part)
        return value

    def _module(self, target: Handle | Name) -> torch.nn.Module:
        module = self._resolve(target)
        if not isinstance(module, torch.nn.Module):
            raise WrongForm(f"{type(module).__name__} is not an nn.Module, so it has no parameters")
        return module

    def _export(self, value: Any, depth: int = 0) -> Any:
        """A value as something that travels: tensors as arrays, plain values as they are, objects as handles."""
        if isinstance(value, torch.Tensor):
            return _array(value)
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, int) and int.bit_length(value) > BITS_CAP:
            return Foreign("number", f"of {int.bit_length(value)} bits")
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (tuple, list, dict)):
            if depth == DEPTH_CAP:
                return Foreign(f"{type(value).__name__} that is nested too deep"[:NAME_CAP])
            if isinstance(value, dict):
                keys = [key for key in value if isinstance(key, (str, int)) and _is_short(key)]
                return {key: self._export(value[key], depth + 1) for key in keys}
            items = [self._export(item, depth + 1) for item in value]
            return tuple(items) if isinstance(value, tuple) else items
        if isinstance(value, np.ndarray):
            return Foreign("numpy array", f"shape {value.shape}")
        kind = type(value).__name__[:NAME_CAP]
        if isinstance(value, torch.nn.Module) or callable(value) or type(value).__module__ in self.sources.files:
            self.objects[self.next_object] = value
            self.next_object += 1
            return Handle(self.next_object - 1, kind)
        return Foreign(kind)


class _Only(importlib.abc.MetaPathFinder):
    """The finder restricted to some names, so that one set of sources can stand at both ends of `sys.meta_path`."""

    def __init__(self, sources: Sources, names: set[str]) -> None:
        self.sources = sources
        self.names = names

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        return self.sources.find_spec(fullname, path, target) if fullname in self.names else None


def _array(tensor: torch.Tensor) -> Any:
    try:
        shape = f"shape {tuple(tensor.shape)}"
        if tensor.device.type != "cpu":
            return Foreign(f"tensor on the device {tensor.device}", shape)
        if tensor.dtype not in DTYPES or tensor.layout is not torch.strided:
            return Foreign(f"tensor of {tensor.dtype}", f"{shape}, {tensor.layout}")
        # Asked before memory is taken: `expand` makes a tensor of any size out of four bytes.
        if tensor.numel() * tensor.element_size() > VALUE_CAP or tensor.dim() > frames.RANK_CAP:
            return Foreign("tensor too large to be right", shape[:NAME_CAP])
        return np.array(tensor.detach().resolve_conj().resolve_neg().numpy())
    except MemoryError:
        raise
    except Exception as error:  # nested, not yet initialised, or wrapped by a transform that has ended
        return Foreign("tensor that cannot be read", _cut(str(error), NAME_CAP))


def _names(module: str) -> list[str]:
    """The names that an imported module of the hand-in has."""
    found = getattr(sys.modules.get(module), "__dict__", {})
    return [name for name in found if isinstance(name, str) and name[:2] != "__"]


def _is_short(key: str | int) -> bool:
    return isinstance(key, str) or int.__int__(key) in frames.INT64


def _listed(names: Iterable[str]) -> str:
    return _cut(", ".join(sorted(names)), TEXT_CAP) or "none"


def _plain(kind: str, message: str) -> dict[str, Any]:
    return {"type": kind, "message": message, "file": "", "line": 0, "unfinished": False}
