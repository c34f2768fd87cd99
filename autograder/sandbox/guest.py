"""Runs inside a guest: executes sources it is sent, and answers questions about them. Holds no answer of its own.

The student's guest and the oracle run this same code. What a guest says is a claim: the grader checks its form and
judges its values. A request is a dict with a `verb`; the answer echoes the request's number and carries `value` or
`error`, and what was printed meanwhile.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import random
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from autograder.sandbox import frames, preflight
from autograder.sandbox.frames import Array, Foreign, Handle, Name
from autograder.sandbox.modules import NAME_CAP, TEXT_CAP, Only, Sources, WrongForm, cut, describe, names_of, plain

PRINT_CAP = 16_384
VALUE_CAP = 16 << 20
DEPTH_CAP = 32
BITS_CAP = 4096  # of an integer
DTYPES = {getattr(torch, name): name for name in frames.DTYPES}


class Printed(io.RawIOBase):
    """Takes what student code prints, keeps the beginning, counts the rest: 200 MB of output cost no memory."""

    def __init__(self) -> None:
        self.kept = bytearray()
        self.cut = 0

    def write(self, data: Any) -> int:
        given = bytes(data)
        fitting = given[: PRINT_CAP - len(self.kept)]
        self.kept += fitting
        self.cut += len(given[len(fitting) :].decode("utf-8", "ignore"))
        return len(given)

    def writable(self) -> bool:
        return True

    def stream(self) -> io.TextIOWrapper:
        """A standard output as programs know it: with a `buffer`, and to be reconfigured."""
        return io.TextIOWrapper(self, "utf-8", "backslashreplace", write_through=True)  # type: ignore[arg-type]

    def close(self) -> None:
        """Stays open: code that closes its standard output still has later prints kept."""

    def take(self) -> tuple[str, int]:
        """What was printed since the last time, and how many characters more were not kept."""
        taken = self.kept.decode("utf-8", "replace"), self.cut
        self.kept, self.cut = bytearray(), 0
        return taken


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own lack of hints
    """Counts the operations that torch dispatches, by name.

    A hidden loop shows as a count that grows with the length, a ready-made attention or norm as an operation of its name.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: dict[Any, int] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Asked by torch: with True it would import its whole compiler, more than a second, to keep that out of here."""
        return False

    @property
    def operations(self) -> dict[str, int]:
        """How often each was dispatched."""
        return {str(func): count for func, count in self.counts.items()}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.counts[func] = (
            self.counts.get(func, 0) + 1
        )  # an operation's name takes longer to put together than it to run
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
        self.threads = threading.active_count()
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
                    # A second before the kill: on a busy machine it takes its time until the line is told.
                    alarm(signal.ITIMER_REAL, max(request["limit"] / 2, request["limit"] - 1))
                answer = self.answer(request)
                self.working_on = None
                if alarm:
                    alarm(signal.ITIMER_REAL, 0)
                try:
                    packed = pack(answer, frames.ANSWER_CAP, frames.ANSWER_BODY_CAP)
                except frames.FrameError as error:
                    packed = pack({"id": request["id"], "error": plain("WrongForm", f"what came back: {error}")})
                except BaseException:  # out of memory, or a value that raises when it is looked at
                    packed = pack({"id": request["id"], "error": plain("WrongForm", "what came back cannot be sent")})
                send(self.sock, packed)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request, whatever the code that it runs does."""
        sys.stdout = sys.stderr = self.printed.stream()
        answer: dict[str, Any] = {"id": request["id"]}
        self.working_on = request["id"]
        try:
            begin = request.get("begin")
            if begin and self.begin(begin) and "new" not in begin:  # a new guest has nothing left over from a check
                return {"id": request["id"], "busy": True}
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
        """Execute modules. `files`: module → (file name, text); `helpers`: the same, found only where nothing else is."""
        self.begin({"seed": 0})  # a file may draw random numbers while it is imported, and Python seeds anew at a fork
        files, helpers = dict(request["files"]), dict(request["helpers"])
        everything = {**helpers, **files}
        self.sources.files = {module: text for module, (_, text) in everything.items()}
        self.sources.placed = {module: place for module, (place, _) in everything.items()}
        self.sources.contract = dict(request["contract"])
        self.sources.errors.clear()
        self.sources.absent.clear()
        for module in everything:
            if module in files:
                sys.modules.pop(module, None)
        # Own files come first, so that no installed module of the same name is graded in their place; helpers come
        # last, so that a `random.py` in the hand-in shadows nothing.
        sys.meta_path.insert(0, Only(self.sources, set(files)))
        sys.meta_path.append(Only(self.sources, set(helpers)))
        for module in files:
            try:
                importlib.import_module(module)
            except BaseException as error:  # the module took itself out of sys.modules, or put something else there
                self.sources.errors.setdefault(module, describe(error, self.sources.placed.values()))
        names = {module: names_of(module) for module in files}
        self.threads = threading.active_count()
        return {"errors": dict(self.sources.errors), "names": names, "absent": list(self.sources.absent)}

    def begin(self, request: dict[str, Any]) -> bool:
        """Set every random stream and every global mode of torch to a known state: checks do not colour each other.

        Says whether threads that a call has started are still at work.
        """
        seed = request["seed"]
        self.objects.clear()
        self.next_object = request.get("first", 0)
        random.seed(seed)
        np.random.seed(seed)
        torch.default_generator.manual_seed(seed)  # torch.manual_seed also asks every accelerator: 60 times slower
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        if torch.get_default_device().type != "cpu":
            torch.set_default_device("cpu")
        torch.set_autocast_enabled("cpu", False)
        torch.set_float32_matmul_precision("highest")
        if torch.are_deterministic_algorithms_enabled():
            torch.use_deterministic_algorithms(False)
        torch.autograd.set_detect_anomaly(False)
        return threading.active_count() > self.threads

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
                    raise WrongForm(_lacking(module, name))
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
                    f"a {cut(type(value).__name__, NAME_CAP)} came back, expected {output + 1} values at least"
                )
            value = value[output]
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            return {"value": self._export(value), "attached": False, "gradients": {}}
        named = dict(target.named_parameters()) if isinstance(target, torch.nn.Module) else {}
        for key in wrt:
            if isinstance(key, str) and key not in named:
                raise WrongForm(_lacking(target, key))
        inputs = [args[key] if isinstance(key, int) else named[key] for key in wrt]
        cotangent = torch.as_tensor(request["cotangent"]).to(value.dtype)
        if cotangent.dim() and cotangent.shape != value.shape:
            raise WrongForm(f"the output has shape {tuple(value.shape)}, expected {tuple(cotangent.shape)}")
        # Not by `grad_outputs`: for its shapes torch imports sympy, half a second in each guest.
        found = torch.autograd.grad((value * cotangent).sum(), inputs, allow_unused=True)
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
            value = value[int(part)] if part.lstrip("-").isdigit() else getattr(value, part)
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
        return Foreign("tensor that cannot be read", cut(str(error), NAME_CAP))


def _lacking(module: Any, name: str) -> str:
    """That a module has no parameter of a name, and why, in a sentence of `claims.TEXTS`."""
    said = f"{type(module).__name__} has no parameter {name}"
    part = module
    for step in name.split("."):
        part = getattr(part, step, None)
        if isinstance(part, (list, tuple, dict)):
            instead = "nn.ModuleDict" if isinstance(part, dict) else "nn.ModuleList"
            return f"{said}: {step} is a plain {type(part).__name__}, in which PyTorch finds no parameters; use {instead}"
    named = module.named_parameters() if isinstance(module, torch.nn.Module) else ()
    return f"{said}; it has {_listed(name for name, _ in named)}"


def _is_short(key: str | int) -> bool:
    return isinstance(key, str) or int.__int__(key) in frames.INT64


def _listed(names: Iterable[str]) -> str:
    return cut(", ".join(sorted(names)), TEXT_CAP) or "none"
