"""Judging a part that is built on an earlier part of the same student: one mistake costs its points once.

The part is right where it equals the reference, or where it equals *the student's own* earlier parts put together in the
stated order. The second would also hold for parts that return a constant, so it counts only where the output depends on
every parameter that it should depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograder.check import Mismatch, NeedsReview, expect
from autograder.language import say
from autograder.sandbox.frames import Array
from autograder.sandbox.proxy import NoAnswer, RemoteValue
from autograder.tensors import agree

Parameters = dict[str, Array]


def equals_reference_or_own_parts(
    got: Any, expected: Array, own_parts: Callable[[], Any], alive: Callable[[], None], name: str, axes: str
) -> None:
    """Raise Mismatch against the reference, unless `got` is exactly what the student's own parts give.

    Args:
        got: what the composed part returned.
        expected: the reference's value.
        own_parts: puts the student's own earlier parts together; called only where `got` differs from `expected`.
        alive: raises Mismatch where the output does not depend on what it should; called only then, too.
    """
    try:
        expect(got, name, axes).equals(expected)
    except Mismatch:
        try:
            own = own_parts()
        except NoAnswer:  # the earlier part is missing or broken: then only the reference can be compared with
            own = None
        if not (isinstance(own, np.ndarray) and isinstance(got, np.ndarray) and agree(got, own)):
            raise
        alive()


def depends_on_parameters(
    module: RemoteValue, parameters: Parameters, call: Callable[[], Any], names: Sequence[str], by: float = 0.25
) -> None:
    """Each named parameter, moved alone, must move the output of `call`; the parameters are put back."""
    before = expect(call()).is_tensor().is_finite().value
    for name in names:
        if not _moves(module, parameters, name, by, call, before):
            raise Mismatch(say("The output does not change when {name} changes: it is not used.", name=f"`{name}`"))
    module.load(parameters)


def depends_on_parts(
    module: RemoteValue, parameters: Parameters, call: Callable[[], Any], parts: Sequence[str], by: float = 0.25
) -> None:
    """Each part (`heads.0`, or one parameter) must move the output of `call` through at least one of its parameters.

    Weaker than `depends_on_parameters`, for parts of an earlier lab: a head that reads its keys as values is a mistake of
    that lab, and leaves some of its own parameters unused.
    """
    before = expect(call()).is_tensor().is_finite().value
    for part in parts:
        names = [name for name in parameters if name == part or name.startswith(f"{part}.")]
        if not names:
            raise Mismatch(
                say("There are no parameters of {part}: nothing of its own could be learnt there.", part=f"`{part}`")
            )
        if not any(_moves(module, parameters, name, by, call, before) for name in names):
            raise Mismatch(say("The output does not change when {name} changes: it is not used.", name=f"`{part}`"))
    module.load(parameters)


def _moves(
    module: RemoteValue, parameters: Parameters, name: str, by: float, call: Callable[[], Any], before: Array
) -> bool:
    # Not a common shift: softmax does not feel a constant, and LayerNorm feels no common shift of its input.
    ramp = np.linspace(-by, by, parameters[name].size, dtype=np.float64).reshape(parameters[name].shape)
    module.load({**parameters, name: (parameters[name] + ramp).astype(parameters[name].dtype)})
    after = call()
    return not (isinstance(after, np.ndarray) and agree(after, before))


def value_or_review(call: Callable[[], Any], earlier: Callable[[], Any], what: str) -> Any:
    """The value of a composed part, on an input that it need not take where the student's own earlier part does not.

    Args:
        call: calls the composed part.
        earlier: calls the earlier part on the same input; called only where `call` raised.
        what: the earlier part in words, for staff.

    Raises:
        NeedsReview: both raise. The earlier part's mistake has cost its points there; here nothing can be judged.
        NoAnswer: only the composed part raises.
    """
    try:
        return call()
    except NoAnswer as error:
        # Otherwise the guest is gone, or a file is missing: there is nothing to compare with.
        if error.kind not in ("raised", "unfinished"):
            raise
        try:
            earlier()
        except NoAnswer as cause:
            if cause.kind in ("raised", "unfinished"):
                raise NeedsReview(f"{what} does not take this input either ({cause.message})") from error
        raise


def depends_on_inputs(function: Callable[..., Any], inputs: Sequence[Array], names: Sequence[str]) -> None:
    """Each input, moved alone, must move the output of `function(*inputs)`."""
    before = expect(function(*inputs)).is_tensor().is_finite().value
    for index, name in enumerate(names):
        moved = [array.copy() for array in inputs]
        moved[index] += np.linspace(-1, 1, moved[index].size).reshape(moved[index].shape).astype(moved[index].dtype)
        after = function(*moved)
        if isinstance(after, np.ndarray) and agree(after, before):
            raise Mismatch(say("The output does not change when {name} changes: it is not used.", name=name))


def needs(part: str, call: Callable[[], Any]) -> None:
    """An earlier part must work at all: where it does not, what is built on it is blocked, not failed.

    Args:
        part: the earlier part, as the student calls it.
        call: uses the earlier part alone; may expect of what comes back that something can be built on it.

    Raises:
        NoAnswer: of the kind "missing", with the reason, where `call` raises.
    """
    try:
        call()
    except Mismatch as finding:  # it costs its points where that part is judged
        gap = finding.gap.rstrip(".。")
        why = say("this needs {part}, which is not right yet: {why}", part=part, why=gap)
        raise NoAnswer("missing", why) from finding
    except NoAnswer as error:
        if error.kind not in ("raised", "unfinished"):
            raise
        why = say("this needs {part}, which does not work yet: {why}", part=part, why=error.said)
        raise NoAnswer("missing", why, error.file, error.line) from error


def needs_right(part: str, is_right: Callable[[], bool], judge: Callable[[], None]) -> None:
    """Raise what `judge` finds, unless an earlier part that is called there is wrong itself: then this is blocked by it.

    Args:
        part: the earlier part, as the student calls it.
        is_right: whether that part, alone, gives what it should; asked only where `judge` found something.
        judge: judges the part that is built on it.

    Raises:
        NoAnswer: of the kind "missing", where the earlier part is wrong. It costs its points where it is judged.
    """
    try:
        judge()
    except (Mismatch, NoAnswer) as finding:
        if _is_gone(finding):
            raise
        try:
            right = is_right()
        except NoAnswer as cause:
            if _is_gone(cause):
                raise finding from cause
            right = False
        if not right:
            why = say("this needs {part}, which is not right yet", part=f"`{part}`")
            raise NoAnswer("missing", why) from finding
        raise


def load_what_fits(module: RemoteValue, parameters: Parameters) -> Parameters:
    """Load the parameters that are there under these names and shapes, and return them.

    For parts of the same student's: a name that is missing there costs its points there.
    """
    own = module.parameters()
    fitting = {name: value for name, value in parameters.items() if name in own and own[name].shape == value.shape}
    module.load(fitting)
    return fitting


def unless_earlier_part(judge: Callable[[], None], earlier: Callable[[], Any], what: str) -> None:
    """Raise what `judge` finds, unless the student's own earlier parts alone have the same fault.

    Args:
        judge: judges the composed part.
        earlier: puts the same question to the parts below; called only where `judge` found something.
        what: the question in words, for staff.

    Raises:
        NeedsReview: the parts below have the fault, too. It costs its points where they are judged.
    """
    try:
        judge()
    except (Mismatch, NoAnswer) as finding:
        if _is_gone(finding):
            raise
        try:
            earlier()
        except (Mismatch, NoAnswer) as cause:
            if not _is_gone(cause):
                raise NeedsReview(f"{what}: a part below it fails in this already ({cause})") from finding
        raise


def _is_gone(error: Mismatch | NoAnswer) -> bool:
    """The guest is gone, or a file is missing: there is nothing to compare with."""
    return isinstance(error, NoAnswer) and error.kind not in ("raised", "unfinished")
