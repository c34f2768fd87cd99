"""The pool: each item once, whatever happens to workers, and never many at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from autograder.classroom.pool import ALONE_AT_MOST, Done, LocalCrew, Run
from autograder.sandbox.launcher import LaunchError

DEADLY, FAULTY, HOPELESS = 3, 5, 1000


def nothing() -> None:
    """What a worker starts with here."""


def work(number: int) -> int:
    if number == DEADLY:
        os._exit(1)
    if number == FAULTY:
        raise ValueError("five is right out")
    if number == HOPELESS:
        raise LaunchError("torch is not here")
    return number * number


@pytest.fixture
def crew() -> Iterator[LocalCrew]:
    made = LocalCrew(2, nothing)
    yield made
    made.leave(at_once=True)


def test_each_comes_out_once_and_the_guilty_is_told_from_the_innocent(crew: LocalCrew) -> None:
    done = list(Run(crew, work, range(12)))
    assert sorted(item.item for item in done) == list(range(12))
    by_item = {item.item: item for item in done}
    assert by_item.pop(DEADLY) == Done(DEADLY, None, f"graded alone, it took its worker down {ALONE_AT_MOST} times")
    assert by_item.pop(FAULTY) == Done(FAULTY, None, "ValueError: five is right out")
    assert all(item == Done(number, number * number) for number, item in by_item.items())


def test_what_holds_for_all_ends_the_run(crew: LocalCrew) -> None:
    with pytest.raises(LaunchError, match="torch is not here"):
        list(Run(crew, work, [1, HOPELESS, 2]))


def test_items_are_asked_for_as_they_are_needed(crew: LocalCrew) -> None:
    asked = 0
    came = 0

    def items() -> Iterator[int]:
        nonlocal asked
        for number in range(100, 140):
            asked += 1
            yield number

    for _ in Run(crew, work, items()):
        came += 1
        assert asked - came <= 2 * crew.size
    assert came == asked == 40


def test_nothing_to_do_starts_no_process(crew: LocalCrew) -> None:
    assert list(Run(crew, work, [])) == []
    assert not crew.executor()._processes  # type: ignore[attr-defined]
