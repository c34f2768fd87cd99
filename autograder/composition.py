"""Judging a part that is built on an earlier part of the same student: one mistake costs its points once.

The part is right where it equals the reference, or where it equals *the student's own* earlier parts put together in the
stated order. The second would also hold for parts that return a constant, so it counts only where the output depends on
every parameter that it should depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograder.check import Mismatch, expect
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
        # Not a common shift: softmax does not feel a constant, and LayerNorm feels no common shift of its input.
        ramp = np.linspace(-by, by, parameters[name].size, dtype=np.float64).reshape(parameters[name].shape)
        module.load({**parameters, name: (parameters[name] + ramp).astype(parameters[name].dtype)})
        after = call()
        if isinstance(after, np.ndarray) and agree(after, before):
            raise Mismatch(f"The output does not change when `{name}` changes: it is not used.")
    module.load(parameters)
