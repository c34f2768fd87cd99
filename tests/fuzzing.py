"""How many cases a property is tried on: `pytest --hypothesis-profile=thorough` tries ten times as many, and others each time."""

from __future__ import annotations

from hypothesis import settings

NORMAL, THOROUGH = 100, 1000
# In CI the same cases each time: a commit that changes nothing cannot fail there. None has a limit of time: load is no fault.
settings.register_profile("ci", max_examples=NORMAL, derandomize=True, deadline=None, database=None)
settings.register_profile("thorough", max_examples=THOROUGH, deadline=None, print_blob=True)
settings.load_profile("ci")  # pytest's option, where it is given, is loaded after this


def examples(count: int) -> settings:
    """Settings for `count` cases in CI. Read when a test file is imported, which is after the profile was chosen."""
    return settings(max_examples=count * settings.default.max_examples // NORMAL)
