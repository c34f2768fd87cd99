"""What an author writes: checks, which are plain functions, and expectations inside them.

    @number("1.4.2")
    @weight(2)
    @check(target="scaled_dot_product_no_loop_batch", after="no_loop_values", read="#row-i-reads-column-j")
    def weights_sum_to_one(student, probes):
        \"\"\"each reader's weights sum to 1\"\"\"
        _, weights = student.scaled_dot_product_no_loop_batch(*probes.attention())
        expect(weights.sum(-1), "the sum of the weights", axes="sequence reader").equals(1)

`weight`, `number`, `visibility` and `tags` are gradescope-utils' own. A check asks for what it needs by parameter name:
`student`, `reference`, `probes`, `source` (the hand-in as text), `questions`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from autograder.language import N_, say
from autograder.sandbox.claims import told
from autograder.sandbox.frames import Array, Foreign
from autograder.sandbox.proxy import GraderFault, NoAnswer, RemoteValue
from autograder.tensors import difference_words, disagreement, index_words, shape_words, two_figures

Function = TypeVar("Function", bound=Callable[..., Any])
RESOURCES = ("student", "reference", "probes", "source", "questions")


@dataclass(frozen=True)
class Difference:
    """Two arrays of one shape that do not agree, and what their axes and positions are called."""

    name: str
    axes: tuple[str, ...]
    tokens: tuple[str, ...]  # what stands at each position, where the probe is about words
    got: Array
    expected: Array
    wrong: Array  # bool, of the same shape


class Mismatch(AssertionError):
    """A check's finding about the student's work: the gap in words, and the arrays it was seen in."""

    def __init__(self, gap: str, seen: tuple[Difference, ...] = ()) -> None:
        super().__init__(gap)
        self.gap = gap
        self.seen = seen


class RuleBroken(Mismatch):
    """A rule on how the part is written is broken, at a line of the student's."""

    def __init__(self, gap: str, line: int | None = None) -> None:
        super().__init__(gap)
        self.line = line


class NeedsReview(Exception):
    """The check cannot decide: the points stand, and staff are told why."""


class AuthoringError(Exception):
    """A lab is put together wrongly: what, where, what to do."""


@dataclass(frozen=True)
class Check:
    """One graded function of a lab."""

    name: str
    function: Callable[..., None]
    number: str
    title: str
    points: float
    target: str
    module: str
    after: tuple[str, ...] = ()
    read: str = ""
    hidden: bool = False
    shown: str = "visible"
    tags: tuple[str, ...] = ()
    local: bool = True
    needs: tuple[str, ...] = ()
    origin: str = ""

    @property
    def section(self) -> str:
        """`1.4.2` belongs to section `1.4`."""
        return self.number.rpartition(".")[0]


@dataclass
class _Declared:
    target: str
    after: tuple[str, ...] = ()
    read: str = ""
    module: str = ""
    local: bool = True
    order: int = field(default=0)


def check(
    *, target: str, after: str | Sequence[str] = (), read: str = "", module: str = "", local: bool = True
) -> Callable[[Function], Function]:
    """Declare a function as a check.

    Args:
        target: the symbol of the hand-in that is judged; the report points at its line.
        after: checks that must pass first; where one does not, this one is `blocked` by it.
        read: anchor of the handout to read, `#row-i-reads-column-j`.
        module: the file (without `.py`) the target stands in, where it is not the lab's main one.
        local: False keeps a check that cannot be recorded out of the student's zip.
    """
    gates = (after,) if isinstance(after, str) else tuple(after)

    def declare(function: Function) -> Function:
        function.__check__ = _Declared(target, gates, read, module, local)  # type: ignore[attr-defined]
        return function

    return declare


def build(function: Callable[..., None], main_module: str) -> Check:
    """Read the decorators of one function. Raises AuthoringError where something is missing or unknown."""
    declared: _Declared = function.__check__  # type: ignore[attr-defined]
    origin = f"{inspect.getsourcefile(function)}:{function.__code__.co_firstlineno}"
    for attribute, decorator in (("__number__", "number"), ("__weight__", "weight")):
        if not hasattr(function, attribute):
            raise AuthoringError(f"{origin}: check {function.__name__} has no @{decorator}(…)")
    number = getattr(function, "__number__")  # noqa: B009  (mypy knows no such attribute)
    if not isinstance(number, str) or not re.fullmatch(r"[1-9]\d*\.[1-9]\d*\.[1-9]\d*", number, re.ASCII):
        raise AuthoringError(f'{origin}: check {function.__name__} has number {number!r}; write it as "1.4.2"')
    title = " ".join((inspect.getdoc(function) or "").split())
    if not title:
        raise AuthoringError(f"{origin}: check {function.__name__} has no docstring; its docstring is its title")
    needs = tuple(inspect.signature(function).parameters)
    for need in needs:
        if need not in RESOURCES:
            raise AuthoringError(
                f"{origin}: check {function.__name__} asks for {need!r}; there is {', '.join(RESOURCES)}"
            )
    points = getattr(function, "__weight__")  # noqa: B009
    if not isinstance(points, (int, float)) or isinstance(points, bool) or not 0 <= points < 1000:
        raise AuthoringError(f"{origin}: check {function.__name__} has weight {points!r}; a number of points is needed")
    shown = getattr(function, "__visibility__", "visible")
    if shown not in ("visible", "hidden", "after_due_date", "after_published"):
        raise AuthoringError(f"{origin}: check {function.__name__} has an unknown visibility {shown!r}")
    if declared.read and not re.fullmatch(r"#\S+", declared.read):
        raise AuthoringError(
            f'{origin}: check {function.__name__} has read={declared.read!r}; write an anchor: "#no-loop"'
        )
    return Check(
        name=function.__name__,
        function=function,
        number=number,
        title=title,
        points=float(points),
        target=declared.target,
        module=declared.module or main_module,
        after=declared.after,
        read=declared.read,
        hidden=shown == "hidden",
        shown=shown,
        tags=tuple(getattr(function, "__tags__", ())),
        local=declared.local and shown != "hidden",
        needs=needs,
        origin=origin,
    )


class Expectation:
    """What is expected of one value that came back from the student. Shape is settled before values."""

    def __init__(self, value: Any, name: str, axes: str | Sequence[str], tokens: Sequence[str] = ()) -> None:
        self.value = value
        self.name = say(name)
        self.axes = tuple(axes.split()) if isinstance(axes, str) else tuple(axes)
        self.tokens = tuple(tokens)

    def is_tensor(self) -> Expectation:
        """A tensor, not a list, a numpy array or None."""
        self._array()
        return self

    def has_shape(self, *shape: int) -> Expectation:
        """Exactly this shape: nothing is broadcast into agreement."""
        array = self._array()
        if array.shape != shape:
            got, wanted = shape_words(array.shape), shape_words(shape, self.axes)
            raise Mismatch(say("{name} has shape {got}, expected {wanted}.", name=self.name, got=got, wanted=wanted))
        return self

    def has_dtype(self, dtype: str) -> Expectation:
        """This dtype, in numpy's name."""
        array = self._array()
        if array.dtype.name != dtype:
            raise Mismatch(
                say("{name} has dtype {got}, expected {wanted}.", name=self.name, got=array.dtype.name, wanted=dtype)
            )
        return self

    def is_finite(self) -> Expectation:
        """No NaN, no infinity."""
        array = self._array()
        bad = ~np.isfinite(array)
        if bad.any():
            index = tuple(int(i) for i in np.argwhere(bad)[0])
            known = {"name": self.name, "got": array[index], "bad": int(bad.sum()), "size": bad.size}
            if not index:
                raise Mismatch(say("{name} is {got}: {bad} of {size} values are not finite.", **known))
            place = index_words(index, self.axes)
            raise Mismatch(
                say("{name} at {place} is {got}: {bad} of {size} values are not finite.", place=place, **known)
            )
        return self

    def equals(self, expected: Any, tolerance: float | None = None, beside: Difference | None = None) -> Expectation:
        """Agrees with an array of the same shape, or with one number everywhere.

        `tolerance` is the largest distance that is allowed, 0.0 for the same bits. Without it: 1e-4 of the largest expected
        value where the student returned float32, 1e-9 in float64, none for integers and bools (docs/design.md, Tolerances).
        `beside` is shown together with what differs here: of a wrong output, the weights that it was read with.
        """
        array = self._array()
        target = np.asarray(expected)
        if target.dtype.kind == "f" and not np.isfinite(target).all():  # nothing agrees with it, whatever was handed in
            raise GraderFault(f"what {self.name} is compared with is not finite")
        if target.ndim == 0:
            if not array.size:
                shape = shape_words(array.shape)
                raise Mismatch(say("{name} is empty: it has shape {shape}.", name=self.name, shape=shape))
            target = np.full(array.shape, target)
        self.has_shape(*target.shape)
        wrong = disagreement(array, target, tolerance)
        if wrong.any():
            words = difference_words(self.name, array, target, wrong, self.axes)
            seen = Difference(self.name, self.axes, self.tokens, array, target, wrong)
            raise Mismatch(words, (seen, beside) if beside else (seen,))
        return self

    def difference(self, expected: Array) -> Difference | None:
        """What differs, where it can be compared and something does: raises nothing, so that it can be shown `beside`."""
        if not isinstance(self.value, np.ndarray) or self.value.shape != expected.shape:
            return None
        wrong = disagreement(self.value, expected)
        seen = Difference(self.name, self.axes, self.tokens, self.value, expected, wrong)
        return seen if wrong.any() else None

    def is_number(self) -> Expectation:
        """A plain number (a tensor with one value counts)."""
        self.value = self._number()
        return self

    def is_near(self, expected: float, tolerance: float) -> Expectation:
        """A number within `tolerance` of the expected one."""
        number = self._number()
        if not abs(number - expected) <= tolerance:
            one, other = two_figures(number, float(expected))
            raise Mismatch(say("{name} is {got}, expected {wanted}.", name=self.name, got=one, wanted=other))
        return self

    def at_most(self, bound: float) -> Expectation:
        """A number that is not larger than `bound`."""
        number = self._number()
        if not number <= bound:
            one, other = two_figures(number, float(bound))
            raise Mismatch(say("{name} is {got}, expected at most {wanted}.", name=self.name, got=one, wanted=other))
        return self

    def at_least(self, bound: float) -> Expectation:
        """A number that is not smaller than `bound`."""
        number = self._number()
        if not number >= bound:
            one, other = two_figures(number, float(bound))
            raise Mismatch(say("{name} is {got}, expected at least {wanted}.", name=self.name, got=one, wanted=other))
        return self

    def _number(self) -> float:
        value = self.value
        if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "fiu":
            value = value.item()
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Mismatch(say("{name} is {kind}, expected a number.", name=self.name, kind=kind(value)))
        return float(value)

    def _array(self) -> Array:
        if not isinstance(self.value, np.ndarray):
            raise Mismatch(say("{name} is {kind}, expected a tensor.", name=self.name, kind=kind(self.value)))
        return self.value


def expect(
    value: Any, name: str = N_("the output"), axes: str | Sequence[str] = (), tokens: Sequence[str] = ()
) -> Expectation:
    """Begin an expectation. `name` and `axes` are the words of the message: `the output at sequence 0, reader 3 is …`.

    `tokens` are the words that stand at the positions, where the input is about words: tables are labelled with them.
    """
    return Expectation(value, name, axes, tokens)


def expect_error(kind_of_error: str, call: Callable[[], Any], when: str) -> None:
    """The call must raise this exception, and says what for: `ValueError where M is not a multiple of H`."""
    try:
        call()
    except NoAnswer as error:
        if error.kind == "raised" and error.message.split(":")[0] == kind_of_error:
            return
        raise
    raise Mismatch(say("nothing was raised, expected {error} {when}.", error=kind_of_error, when=say(when)))


def kind(value: Any) -> str:
    """What a value is, in a student's words."""
    if value is None:
        return say("None (is there a `return`?)")
    if isinstance(value, np.ndarray):
        return say("a tensor of shape {shape}", shape=shape_words(value.shape))
    if isinstance(value, Foreign):
        return _of_type(told(value.type)) + (f" ({told(value.text)})" if value.text else "")
    if isinstance(value, RemoteValue):
        return say("an object")
    if isinstance(value, (tuple, list)):
        return say("a {type} of {length}", type=type(value).__name__, length=len(value))
    return _of_type(type(value).__name__)


def _of_type(name: str) -> str:
    return say("an {type}", type=name) if name[:1].lower() in tuple("aeio") else say("a {type}", type=name)


def pair(value: Any, names: tuple[str, str], name: str = N_("the output")) -> tuple[Any, Any]:
    """The two values of a function that returns two, or a finding that says what came instead."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise Mismatch(
            say(
                "{name} is {kind}, expected two values: ({first}, {second}).",
                name=say(name),
                kind=kind(value),
                first=names[0],
                second=names[1],
            )
        )
    return value[0], value[1]
