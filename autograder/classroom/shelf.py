"""Records that are kept from one run to the next, each in a file under its job's key."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from autograder.result import Record, save


class Shelf:
    """A folder of records. A run that is killed leaves whole ones, and the next goes on from there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: str) -> Path:
        """Where the record of a key is kept."""
        return self.folder / f"{key}.json"

    def get(self, key: str) -> Record | None:
        """The record that was kept; None where there is none that can be relied on."""
        try:
            text = self.path(key).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            return Record.model_validate_json(text)
        except ValidationError:  # of another version, or spoilt: graded again
            return None

    def put(self, key: str, record: Record, text: str) -> None:
        """Keep a record, unless the grader failed in it: the next run shall try again."""
        if record.complete and not record.faults:
            save(text, self.path(key), private=True)
