"""Concept questions: options with what each would imply, and the check that judges one answer.

The right letters stand in the reference's ANSWERS alone. A wrong letter is answered with what it would imply, never with
the right one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from autograder.check import Mismatch, kind
from autograder.language import say
from autograder.sandbox.proxy import GraderFault, Remote


class Option(BaseModel):
    """One choice. `implies` says what would follow if it were true; the right option has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    implies: str = ""


class Question(BaseModel):
    """A question of the handout, with three to five options, exactly one of which is right."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: str
    options: dict[str, Option]

    @model_validator(mode="after")
    def _one_right(self) -> Question:
        if list(self.options) != list("ABCDE")[: len(self.options)] or len(self.options) < 3:
            raise ValueError("options are A, B, C, at most to E, in this order")
        bare = [letter for letter, option in self.options.items() if not option.implies]
        if len(bare) > 1:
            raise ValueError(f"options {' and '.join(bare)} have no `implies`: every option but the right one needs it")
        if not bare:
            raise ValueError(f"options {', '.join(self.options)} all have `implies`: take it from the right one")
        return self


Questions = Mapping[str, Question]


def judge(questions: Questions, name: str, student: Remote, reference: Remote) -> None:
    """Judge the answer to one question. Raises Mismatch with what the chosen option would imply."""
    question = questions[name]
    answers = student.ANSWERS.value()
    if not isinstance(answers, dict):
        raise Mismatch(say("ANSWERS is {kind}, expected a dict with one letter per question.", kind=kind(answers)))
    if name not in answers:
        raise Mismatch(say('ANSWERS has no entry "{name}".', name=name))
    letter = answers[name]
    if letter is None:
        raise Mismatch(say("Not answered yet."))
    letters = ", ".join(question.options)
    chosen = letter.strip().upper() if isinstance(letter, str) else ""
    if chosen not in question.options:
        said = repr(str(letter)[:40])
        raise Mismatch(
            say("The answer is {answer}, expected one of the letters {letters}.", answer=said, letters=letters)
        )
    right = reference.ANSWERS.value()[name]
    if right not in question.options or question.options[right].implies:
        raise GraderFault(f"the reference's answer to {name} is not the option without `implies`")
    if chosen != right:
        raise Mismatch(say("{letter} is not it. {why}", letter=chosen, why=say(question.options[chosen].implies)))


def as_markdown(questions: Questions) -> str:
    """The questions as they stand in the handout, each under an anchor of its name."""
    parts = []
    for name, question in questions.items():
        options = [f"- **{letter}** {say(option.text)}" for letter, option in question.options.items()]
        parts.append("\n".join([f"### {name}", "", say(question.prompt).strip(), "", *options]))
    return "\n\n".join(parts)


def load(document: dict[str, Any]) -> dict[str, Question]:
    """Questions from a parsed questions.toml. Raises pydantic's ValidationError."""
    return {name: Question.model_validate(entry) for name, entry in document.items()}
