"""The language in which a grading speaks: every sentence for a student goes through `say`, where it is produced.

    say("{name} is empty: it has shape {shape}.", name=name, shape=shape)

The English text is the key. A catalogue (gettext's `.mo`, written by `make messages`) holds it in another language: one of
the framework, and one beside each lab, which goes first. What no catalogue has is said in English. English itself reads no
file. Staff's sentences (errors in a lab, faults, the class report) are English always, and do not come here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from gettext import NullTranslations

    from autograder.result import Record

P = ParamSpec("P")
T = TypeVar("T")
ENGLISH = "en"
FOLDER = Path(__file__).resolve().parent / "locale"
DOMAIN = "LC_MESSAGES/autograder.mo"
# As HTML wants to know it, where that is more than our own name for it: the script decides which form of a character is drawn.
TAGS = {"zh": "zh-Hans"}
# What a line of text can be cut between: a Chinese character, or a word of any other script.
_IDEOGRAPH = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WIDE_MARK = "\u3000-\u303f\uff00-\uffef"
TOKEN = re.compile(rf"[{_IDEOGRAPH}{_WIDE_MARK}]|[^\s{_IDEOGRAPH}{_WIDE_MARK}]+")
_spoken: ContextVar[NullTranslations | None] = ContextVar("spoken", default=None)


def say(text: str, /, **values: Any) -> str:
    """A sentence in the language of the grading, with `{name}` replaced by the value of that name."""
    spoken = _spoken.get()
    if spoken is None:
        return text.format(**values) if values else text
    found = spoken.gettext(text) if text else text  # the empty text is the key of a catalogue's own header
    return filled(found, values) if values else found


def say_many(number: int, one: str, many: str, /, **values: Any) -> str:
    """`one` or `many`, as the language counts `number`."""
    spoken = _spoken.get()
    if spoken is None:
        return (one if number == 1 else many).format(**values)
    return filled(spoken.ngettext(one, many, number), values)


def N_(text: str) -> str:
    """Marks a text for the catalogue that is said later."""
    return text


def retold(text: str, templates: tuple[str, ...]) -> str:
    """A sentence that was made from one of these templates in English, in the language of the grading."""
    if _spoken.get() is None:
        return text
    for pattern, template in _patterns(templates):
        if found := pattern.fullmatch(text):
            return say(template, **found.groupdict())
    return text


@lru_cache(maxsize=8)
def _patterns(templates: tuple[str, ...]) -> list[tuple[re.Pattern[str], str]]:
    found = []
    for template in templates:
        parts = [(re.escape(text), name) for text, name, _, _ in Formatter().parse(template)]
        pattern = "".join(text + (f"(?P<{name}>.+?)" if name else "") for text, name in parts)
        found.append((re.compile(pattern, re.DOTALL), template))
    return found


def filled(template: str, values: dict[str, Any]) -> str:
    """A template with its values, and between Chinese and other words the one space that belongs there.

    Whether a value begins with a Chinese character is known only now. Within a template and within a value all stays.
    """
    parts: list[str] = []
    for text, name, spec, _ in Formatter().parse(template):
        parts.append(text)
        if name is not None:
            parts.append(format(values[name], spec or ""))
    written = ""
    for part in filter(None, parts):
        written = _joined(written, part)
    return written


def _joined(left: str, right: str) -> str:
    before, after = left.rstrip(" "), right.lstrip(" ")
    if not before or not after:
        return left + right
    if is_cjk(before[-1]) and is_cjk(after[0]):
        return before + after
    touching = before == left and after == right
    words = _is_ideograph(before[-1]) and _is_word(after[0])
    words = words or (_is_word(before[-1]) and _is_ideograph(after[0]))
    return f"{left} {right}" if touching and words else left + right


def is_cjk(character: str) -> bool:
    """Whether a character is as wide as a Chinese one: an ideograph, or punctuation of that width."""
    return re.match(f"[{_IDEOGRAPH}{_WIDE_MARK}]", character) is not None


def _is_ideograph(character: str) -> bool:
    return re.match(f"[{_IDEOGRAPH}]", character) is not None


def words_in(text: str) -> int:
    """How long a text is, in words: Chinese has no spaces, and two characters are about a word."""
    if text.isascii():
        return len(text.split())
    tokens = TOKEN.findall(text)
    characters = sum(_is_ideograph(token[0]) for token in tokens)
    others = sum(not is_cjk(token[0]) and bool(token.strip("…—“”")) for token in tokens)
    return others + (characters + 1) // 2 if characters else len(text.split())


def _is_word(character: str) -> bool:
    return character.isalnum() or character in "`([{<\"'-+±√%)]}>"


@contextmanager
def speaking(language: str, lab: Path | None = None) -> Iterator[None]:
    """Say everything inside in a language. `lab`: the folder of a lab whose own sentences are said, too."""
    before = _spoken.set(_translations(language, lab))
    try:
        yield
    finally:
        _spoken.reset(before)


def use(language: str, lab: Path | None = None) -> None:
    """Say everything from now on in a language: for a process that speaks one."""
    _spoken.set(_translations(language, lab))


def in_its_language(function: Callable[Concatenate[Record, P], T]) -> Callable[Concatenate[Record, P], T]:
    """A report of a record: what it adds is said in the language that the record is in."""

    @wraps(function)
    def spoken(record: Record, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with speaking(record.language):
            return function(record, *args, **kwargs)

    return spoken


def _translations(language: str, lab: Path | None) -> NullTranslations | None:
    return _read(*files(language, lab)) if language != ENGLISH else None


def files(language: str, lab: Path | None = None) -> list[Path]:
    """The catalogues of a language that there are: the framework's, and that of the lab in this folder."""
    wanted = [FOLDER / language / DOMAIN, *([lab / "locale" / f"{language}.mo"] if lab else [])]
    return [path for path in wanted if path.exists()]


@lru_cache(maxsize=8)
def _read(*paths: Path) -> NullTranslations | None:
    """The last catalogue of these, which falls back on those before it; None where there is none."""
    from gettext import GNUTranslations

    found: NullTranslations | None = None
    for path in paths:
        with path.open("rb") as file:
            before, found = found, GNUTranslations(file)
        if before:
            found.add_fallback(before)
    return found


def tag(language: str) -> str:
    """A language as HTML names it."""
    return TAGS.get(language, language)


def known() -> list[str]:
    """The languages that there are: English, and each that has a catalogue of the framework."""
    return [ENGLISH, *sorted(path.parents[1].name for path in FOLDER.glob(f"*/{DOMAIN}"))]


def checked(language: str) -> str:
    """A language that there is. Raises ValueError that names the nearest one for any other."""
    if language == ENGLISH or language in (there := known()):
        return language
    from difflib import get_close_matches

    near = get_close_matches(language.lower(), there, 1, cutoff=0.4)
    advice = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(there)}"
    raise ValueError(f"{language!r} is no language of this grader; {advice}")


def excerpt(path: Path, wanted: Iterable[str]) -> bytes:
    """A catalogue with some of the texts of another one."""
    from gettext import GNUTranslations

    with path.open("rb") as file:
        known = GNUTranslations(file)
    said = {text: known.gettext(text) for text in ["", *wanted]}  # the empty text is the header
    return compiled({text: there for text, there in said.items() if there != text})


def compiled(said: Mapping[str, str]) -> bytes:
    """A `.mo` as gettext reads it: a table of lengths and places for all texts, one for all translations, then the bytes.

    `said`: text → translation; under the empty text the header.
    """
    entries = sorted((key.encode(), value.encode()) for key, value in said.items())
    count, tables, body = len(entries), b"", b""
    begin = 28 + 16 * count
    for column in (0, 1):
        for entry in entries:
            tables += struct.pack("<II", len(entry[column]), begin + len(body))
            body += entry[column] + b"\0"
    return struct.pack("<7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, begin) + tables + body
