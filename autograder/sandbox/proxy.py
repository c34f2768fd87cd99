"""What a check calls: `student.f(x)` and `reference.f(x)` read like local code and run in a guest.

An Interpreter answers requests (a live guest, or a recording of one); a Remote is the lab's namespace over it.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from autograder.language import say
from autograder.sandbox import claims, frames
from autograder.sandbox.frames import Array, Handle, Name
from autograder.sandbox.jail import JailPlan
from autograder.sandbox.launcher import Process
from autograder.sandbox.spawner import Launcher


class NoAnswer(Exception):
    """A call into a guest gave no value. `kind`: raised, unfinished, missing, time, memory, died, malformed.

    `form`: what was raised is a sentence of ours on something that has not the form it should have.
    """

    def __init__(self, kind: str, message: str, file: str = "", line: int = 0, form: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.file = file
        self.line = line
        self.form = form

    @property
    def said(self) -> str:
        """The message in the language of the grading, where it is a sentence of ours."""
        ours = self.form or self.kind in ("missing", "unfinished")
        return claims.told(self.message) if ours else self.message

    def again(self) -> NoAnswer:
        """The same, to be raised once more: an exception that was raised holds on to all that was at work then."""
        return NoAnswer(self.kind, self.message, self.file, self.line, self.form)


NO_GUEST = -1
LOST = ("died", "time", "memory", "malformed")  # kinds after which the guest is another one, or none


class OutOfTime(Exception):
    """The time of the whole run is used up: what is left is not run."""


class GraderFault(Exception):
    """The reference, not the student, gave no value."""


class ReferenceLost(GraderFault):
    """The reference's process ended, or was too late: asked again, a new one may answer."""


class NotRecorded(GraderFault):
    """A recording of the reference was asked what it does not hold."""


class _Busy(Exception):
    """Threads that an earlier call has started are still at work in a guest."""


Files = dict[str, tuple[str, str]]


@dataclass(frozen=True)
class Program:
    """The sources a guest runs: module → (file name, text), in import order."""

    files: Files
    helpers: Files
    fallback: Callable[[], Files] | None = None  # definitions only: used where `files` hangs or dies at import
    contract: dict[str, list[str]] = field(default_factory=dict)  # module → names that it should have


PRINTED_CAP = 20_000


class Interpreter(Protocol):
    """Answers requests."""

    def ask(self, verb: str, **body: Any) -> Any:
        """The value of one request. Raises NoAnswer."""


class Live:
    """A guest process, started when first asked, replaced after it died. Limits are enforced by a kill, only."""

    def __init__(
        self, zygote: Launcher, program: Program, plan: Callable[[], JailPlan] | None, call_seconds: float
    ) -> None:
        self.zygote = zygote
        self.program = program
        self.plan = plan
        self.call_seconds = call_seconds
        self.run_ends: float | None = None  # on the clock of time.monotonic
        self.process: Process | None = None
        self.loaded: dict[str, Any] = {"errors": {}, "names": {}, "absent": []}
        self.layers: dict[str, str] = {}
        self.notes: list[str] = []
        self.printed = ""
        self.cut = 0  # characters that were printed and not kept
        self.forks = 0
        self._hopeless: tuple[str, str] | None = None
        self._memory = ""
        self._number = 0
        self._begun: dict[str, Any] = {"seed": 0}
        self._fresh = False  # whether no question has been asked since

    def ask(self, verb: str, **body: Any) -> Any:
        """Send one request to the guest and wait for its answer. "begin" travels with the next one."""
        if verb == "begin":
            self._begun, self._fresh = body, True
            return None
        begin, self._fresh = self._begun if self._fresh else None, False
        if self.process is not None:
            try:
                return self._exchange(verb, body, begin)
            except _Busy:
                pass  # threads of an earlier check would take the time of this one
            except NoAnswer as error:
                # Perhaps by what an earlier check left running in it, which is not this one's fault: a new guest tells.
                if begin is None or error.kind not in ("died", "malformed"):
                    raise
        self.start()
        # Within a check, other numbers than the dead guest's objects had: it may still hold some of those.
        return self._exchange(verb, body, {"new": True, "first": 0 if begin else self.forks << 20, **self._begun})

    def wake(self) -> None:
        """Start a guest where there is none. Raises NoAnswer where it cannot be used."""
        if self.process is None:
            self.start()

    def take_printed(self, cap: int) -> str:
        """What was printed since the last time, cut to `cap` characters with a notice of how much was cut."""
        text, cut = self.printed[:cap], self.cut + max(0, len(self.printed) - cap)
        self.printed, self.cut = "", 0
        if not cut:
            return text
        return "\n".join([text, say("… {number} more characters were printed and cut here.", number=f"{cut:,}")])

    def start(self) -> None:
        """Fork a guest and load the program; where that hangs or kills it, once more with its definitions only."""
        if self._hopeless:
            raise NoAnswer(*self._hopeless)
        try:
            self._load()
        except NoAnswer as error:
            self.close()
            if self.program.fallback is None:
                failed = error.kind, say("your file cannot be loaded: {why}", why=error.said)
                # Tried both ways: a third time would only take the time of checks on other files.
                self._hopeless = failed if self.notes else None
                raise NoAnswer(*failed) from error
            self.notes.append(
                say(
                    "While your file was being imported, {what}. "
                    "Only its imports, functions, classes and constants are used.",
                    what=error.said,
                )
            )
            self.program = replace(self.program, files=self.program.fallback(), fallback=None)
            self.start()

    def _load(self) -> None:
        self.close()
        plan = self.plan() if self.plan else None
        self._memory = f"{plan.memory_bytes >> 20:,}" if plan else ""
        self.process = self.zygote.fork(plan)
        self.layers = self.process.layers
        self.forks += 1
        sources = {"files": self.program.files, "helpers": self.program.helpers}
        printed = self.printed, self.cut
        self.loaded = self._exchange("load", {**sources, "contract": self.program.contract})
        if self.forks > 1:  # what is printed at import was told once
            self.printed, self.cut = printed

    def close(self, patient: bool = False) -> str:
        """End the guest, if there is one; says how it had ended. `patient`: it is about to end by itself."""
        if self.process is None:
            return ""
        process, self.process = self.process, None
        return self.zygote.end(process, patient)

    def _exchange(self, verb: str, body: dict[str, Any], begin: dict[str, Any] | None = None) -> Any:
        assert self.process is not None
        self._number += 1
        now = time.monotonic()
        deadline = now + self.call_seconds
        place = ("", 0)
        if self.run_ends is not None:
            if now >= self.run_ends:
                raise OutOfTime
            deadline = min(deadline, self.run_ends)
        # Before the guest is asked: what cannot be sent is no fault of its.
        asked = {"id": self._number, "verb": verb, "limit": self.call_seconds, **body}
        packed = frames.pack({**asked, "begin": begin} if begin else asked)
        try:
            frames.send_packed(self.process.sock, packed, deadline)
            answer = self._receive(deadline)
            if "at" in answer:
                file, line = answer["at"]
                place = (claims.text(file), claims.count(line))
                answer = self._receive(deadline)
            if begin and "new" not in begin and answer.get("busy") is True:
                raise _Busy
            self._keep_printed(answer.get("printed", ("", 0)))
            if "error" not in answer:
                return claims.answer(verb, answer["value"])
            described = claims.error(answer["error"])
        except frames.Late as error:
            self.close()
            if self.run_ends is not None and deadline >= self.run_ends:
                raise OutOfTime from error
            said = say(
                "it ran longer than {seconds} s and was stopped: look for a loop that never ends",
                seconds=f"{self.call_seconds:g}",
            )
            raise NoAnswer("time", said, *place) from error
        except frames.Closed as error:
            said = say("it ended the whole process: {how}", how=self.close(patient=True))
            raise NoAnswer("died", said) from error
        except (frames.FrameError, LookupError, TypeError, ValueError, AttributeError) as error:
            self.close()
            raise NoAnswer("malformed", say("it sent something to the grader that is no answer")) from error
        raise self._raised(described)

    def _receive(self, deadline: float) -> dict[str, Any]:
        assert self.process is not None
        answer = frames.receive(self.process.sock, deadline, frames.ANSWER_CAP, frames.ANSWER_BODY_CAP)
        if not isinstance(answer, dict) or type(answer.get("id")) is not int or answer["id"] != self._number:
            raise frames.FrameError("an answer to a question that was not asked")
        return answer

    def _keep_printed(self, printed: Any) -> None:
        text, cut = printed
        text = claims.text(text, PRINTED_CAP)
        kept = text[: PRINTED_CAP - len(self.printed)]
        self.printed += kept
        self.cut += len(text) - len(kept) + claims.count(cut)

    def _raised(self, error: dict[str, Any]) -> NoAnswer:
        kind, message = error["type"], error["message"]
        place = (error["file"], error["line"])
        if kind == "MissingPart":
            return NoAnswer("missing", message or "a part is missing", *place)
        if kind == "WrongForm":
            return NoAnswer("raised", message, *place, form=True)
        if error["unfinished"]:
            return NoAnswer("unfinished", message or "not written yet", *place)
        if kind == "MemoryError" or "can't allocate memory" in message or "not enough memory" in message:
            more = say("it asked for more memory than there is")
            if self._memory:
                more = say("it asked for more memory than the {number} MB that a submission may use", number=self._memory)
            return NoAnswer("memory", more, *place)
        return NoAnswer("raised", f"{kind}: {message}" if message else kind, *place)


class Oracle:
    """The reference's guest. Where it gives no value, the fault is the grader's, never the student's."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter

    def ask(self, verb: str, **body: Any) -> Any:
        """The value of one request. Raises GraderFault."""
        try:
            return self.interpreter.ask(verb, **body)
        except NoAnswer as error:
            fault = ReferenceLost if error.kind in LOST else GraderFault
            raise fault(f"the reference gave no value: {error.message} ({error.file}:{error.line})") from error


class Remembering:
    """The reference's guest, asked each question once: a whole class is graded on the same ones.

    An answer depends on every question since "begin", and on the definitions in force, so it is kept under all of them
    together. Where a new question comes, the guest is first led through those that memory has answered.
    """

    def __init__(self, guest: Live, most: int = 32 << 20) -> None:
        self.guest = guest
        self.most = most  # bytes of questions and answers
        self._answers: dict[bytes, tuple[Any, int]] = {}
        self._size = 0
        self._changes: list[dict[str, Any]] = []  # definitions that are asked for
        self._changed: tuple[int, list[dict[str, Any]]] = NO_GUEST, []  # those that the guest has, and which guest it is
        self._since: list[tuple[str, dict[str, Any]]] = []  # questions since "begin", itself included
        self._led = 0  # how many of them the guest was asked
        self._path = b""

    def ask(self, verb: str, **body: Any) -> Any:
        """The answer, from memory where it holds one. Raises NoAnswer."""
        if verb in ("define", "restore"):
            self._changes = [*self._changes, body] if verb == "define" else []
            self._since, self._led = [], 0  # what was asked before is no longer of use
            return None
        if verb == "begin":
            self._since, self._led = [], 0
        packed = frames.pack({"verb": verb, "changes": [] if self._since else self._changes, **body})
        path = hashlib.sha256(self._path + packed if self._since else packed).digest()
        if verb != "begin" and path not in self._answers:
            self._keep(path, self._asked(verb, body), len(packed))
        self._path = path
        self._since.append((verb, body))
        if verb == "begin":
            return None
        answer, _ = self._answers[path]
        if isinstance(answer, NoAnswer):
            raise answer.again()
        return _copied(answer)

    def _asked(self, verb: str, body: dict[str, Any]) -> Any:
        """The answer of the guest to a question after all those since "begin". Raises NoAnswer where the guest was lost."""
        if self._changed != (self.guest.forks, self._changes):
            self._led = 0
            self.guest.ask("restore")
            for change in self._changes:
                self.guest.ask("define", **change)
            self._changed = self.guest.forks, self._changes
        answer: Any = None
        for asked, said in [*self._since[self._led :], (verb, body)]:
            try:
                answer = self.guest.ask(asked, **said)
            except NoAnswer as error:
                if error.kind in LOST:
                    self._changed = NO_GUEST, []
                    raise
                answer = error
            self._led += 1
        if self._changes and self._changed[0] != self.guest.forks:
            raise NoAnswer("died", "the reference's process ended, and with it what was changed in it")
        return answer

    def _keep(self, path: bytes, answer: Any, size: int) -> None:
        size += 200 + _bytes_in(answer)
        while self._answers and self._size + size > self.most:  # the oldest goes first
            self._size -= self._answers.pop(next(iter(self._answers)))[1]
        self._answers[path] = answer, size
        self._size += size


def _copied(answer: Any) -> Any:
    """An answer that the one who asked may change."""
    if isinstance(answer, np.ndarray):
        return answer.copy()
    if isinstance(answer, (list, tuple)):
        return type(answer)(map(_copied, answer))
    return {key: _copied(item) for key, item in answer.items()} if isinstance(answer, dict) else answer


def _bytes_in(answer: Any) -> int:
    if isinstance(answer, np.ndarray):
        return int(answer.nbytes) + 100
    if isinstance(answer, (list, tuple, dict)):
        return 100 + sum(_bytes_in(item) for item in (answer.values() if isinstance(answer, dict) else answer))
    return 50


class Recorded:
    """A recording of the oracle: answers the questions that it was asked when the lab was built, and no other."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self._questions = Questions()

    def ask(self, verb: str, **body: Any) -> Any:
        """The recorded answer."""
        answer = self._questions.recorded(self.answers, verb, body)
        if answer is ...:
            raise NotRecorded("this check asks the reference something that was not recorded")
        return answer


class Recorder:
    """Passes questions on and keeps the answers, for `Recorded` and for diagnosis."""

    def __init__(self, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.answers: dict[str, Any] = {}
        self._questions = Questions()

    def ask(self, verb: str, **body: Any) -> Any:
        """Ask, and keep the answer."""
        answer = self.interpreter.ask(verb, **body)
        self.answers[self._questions.key(verb, body)] = answer
        return answer


class Questions:
    """What questions are known by in a recording: what is asked, the seed of the check, and how often it was asked before.

    The same question has another answer where a class is called twice, or parameters are looked at before and after.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._asked: Counter[str] = Counter()

    def key(self, verb: str, body: dict[str, Any]) -> str:
        """The key of the next question."""
        if verb == "begin":
            self._seed = body["seed"]
            self._asked.clear()
        digest = request_key(verb, body, self._seed)
        self._asked[digest] += 1
        return f"{digest}+{self._asked[digest]}"

    def recorded(self, answers: Mapping[str, Any], verb: str, body: dict[str, Any]) -> Any:
        """The answer to the next question; the last one recorded where it is asked more often; Ellipsis where none is."""
        digest, _, times = self.key(verb, body).partition("+")
        keys = (f"{digest}+{time}" for time in range(int(times), 0, -1))
        return next((answers[key] for key in keys if key in answers), ...)


def request_key(verb: str, body: dict[str, Any], seed: int) -> str:
    """A digest of all that is asked, and of the seed of the check that asks.

    Without the seed, "the object number 3" of two checks would be one question with two answers.
    """
    return hashlib.sha256(frames.pack({"verb": verb, "begun": seed, **body})).hexdigest()


class Remote:
    """A lab's namespace in a guest. `student.f(…)` calls `f` of the lab's main module; `student.module("m").f(…)` another's."""

    def __init__(self, interpreter: Interpreter, module: str, lift: bool = False) -> None:
        self._interpreter = interpreter
        self._module = module
        self._lift = lift  # the reference computes in float64, whatever the student is asked in

    def __getattr__(self, name: str) -> RemoteValue:
        if name.startswith("__"):
            raise AttributeError(name)
        return RemoteValue(self._interpreter, Name(self._module, name), self._lift)

    def module(self, name: str) -> Remote:
        """The namespace of another file of the hand-in."""
        return Remote(self._interpreter, name, self._lift)


class RemoteValue:
    """Something that lives in a guest: a function, a class, an object or a part of one."""

    __iter__ = None  # with `__getitem__` alone, a `for` over one would never end

    def __init__(self, interpreter: Interpreter, target: Handle | Name, lift: bool) -> None:
        self._interpreter = interpreter
        self._target = target
        self._lift = lift

    def __getattr__(self, name: str) -> RemoteValue:
        """A part, by attribute: `block.attention`, `mha.heads`."""
        if name.startswith("__"):
            raise AttributeError(name)
        path = f"{self._target.path}.{name}" if self._target.path else name
        return RemoteValue(self._interpreter, replace(self._target, path=path), self._lift)

    def __getitem__(self, index: int) -> RemoteValue:
        """An item of a module list: `mha.heads[0]`."""
        return RemoteValue(self._interpreter, replace(self._target, path=f"{self._target.path}.{index}"), self._lift)

    def __repr__(self) -> str:
        return f"<{getattr(self._target, 'type', '') or self._target.path} in a guest>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it in the guest; tensors come back as numpy arrays, objects as a RemoteValue."""
        return self._wrap(self._call(args, kwargs)["value"])

    def call_keeping_inputs(self, *args: Any) -> tuple[Any, list[Any]]:
        """The value, and the arguments as they are after the call."""
        answer = self._call(args, {}, want=("inputs",))
        return self._wrap(answer["value"]), answer["inputs"]

    def operations(self, *args: Any) -> dict[str, int]:
        """The operations that torch dispatched during the call, and how often each."""
        return dict(self._call(args, {}, want=("operations",))["operations"])

    def value(self) -> Any:
        """The value itself, of an attribute or a module-level name."""
        return self._wrap(self._interpreter.ask("get", target=self._target))

    def parameters(self) -> dict[str, Array]:
        """The parameters of a module, by name."""
        found: dict[str, Array] = self._interpreter.ask("parameters", target=self._target)
        return found

    def load(self, values: dict[str, Array]) -> RemoteValue:
        """Set parameters by name; returns itself."""
        self._interpreter.ask("load_parameters", target=self._target, values=_lifted(values) if self._lift else values)
        return self

    def train(self, mode: bool = True) -> RemoteValue:
        """Train mode; returns itself."""
        self._interpreter.ask("train", target=self._target, mode=mode)
        return self

    def eval(self) -> RemoteValue:
        """Eval mode; returns itself."""
        return self.train(False)

    def gradients(
        self, *args: Any, wrt: Sequence[int | str], cotangent: Array, output: int | None = None
    ) -> dict[int | str, Array | None]:
        """Gradients of `sum(out · cotangent)` with respect to positional arguments and named parameters.

        None for what the output does not depend on. Raises NoAnswer where the output is cut off from the graph.
        """
        body = self._body(args, {})
        answer = self._interpreter.ask("gradients", **body, wrt=list(wrt), cotangent=self._up(cotangent), output=output)
        if not answer["attached"]:
            said = "the output has no gradient: it was detached from the graph on the way"
            raise NoAnswer("raised", said, form=True)
        found: dict[int | str, Array | None] = answer["gradients"]
        return found

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], want: tuple[str, ...] = ()) -> Any:
        return self._interpreter.ask("call", **self._body(args, kwargs), want=want)

    def _body(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return {"target": self._target, "args": self._up(list(args)), "kwargs": self._up(kwargs)}

    def _up(self, value: Any) -> Any:
        value = _unwrap(value)
        return _lifted(value) if self._lift else value

    def _wrap(self, value: Any) -> Any:
        if isinstance(value, Handle):
            # Without its path: questions to the student are put to the oracle, too, and no guest leads it anywhere.
            return RemoteValue(self._interpreter, Handle(value.id, value.type), self._lift)
        if isinstance(value, (list, tuple)):
            return type(value)(self._wrap(item) for item in value)
        if isinstance(value, dict):
            return {key: self._wrap(item) for key, item in value.items()}
        return value


def _unwrap(value: Any) -> Any:
    """Proxies among the arguments (`reads(function, x)`) travel as what they stand for."""
    if isinstance(value, RemoteValue):
        return value._target
    if isinstance(value, (list, tuple)):  # a probe is a named tuple: it travels as a plain one
        items = [_unwrap(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {key: _unwrap(item) for key, item in value.items()}
    return value


def _lifted(value: Any) -> Any:
    """float32 arrays as float64: the reference answers as exactly as it can."""
    if isinstance(value, np.ndarray):
        return value.astype(np.float64) if value.dtype == np.float32 else value
    if isinstance(value, (list, tuple)):
        return type(value)(_lifted(item) for item in value)
    if isinstance(value, dict):
        return {key: _lifted(item) for key, item in value.items()}
    return value
