"""The texts of a catalogue: which there are, in the framework and in each lab, and the files that hold their translations.

A lab's texts are data (titles, questions, what a mistake says) and words in its checks: every text that is given to `say`, and
every literal that is given as `name`, `axes`, `when` or `gap`. A `name` of one word is a symbol of the code and stays.
"""

from __future__ import annotations

import ast
import inspect
import io
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder import course
from autograder import lab as labs
from autograder.check import AuthoringError
from autograder.lab import Lab
from autograder.language import ENGLISH, FOLDER, compiled

if TYPE_CHECKING:
    from babel.messages.catalog import Catalog

PACKAGE = Path(__file__).resolve().parent
KEYWORDS: dict[str, Any] = {"say": None, "say_many": (2, 3), "N_": None}
Texts = dict[str, str]  # text → where it stands


def of_lab(lab: Lab) -> Texts:
    """The texts of a lab, in their order."""
    found: Texts = {lab.file.title: "lab.toml, title"}
    for section in lab.file.sections:
        found.setdefault(section.title, f"section {section.number}")
    for check in lab.checks:
        found.setdefault(check.title, f"check {check.number}")
    for text in _in_checks(ast.parse(course.read_text(lab.folder / "checks.py")), lab.checks[0].function.__globals__):
        found.setdefault(text, "words in checks.py")
    for item in lab.mistakes:
        if item.told == "cause":
            found.setdefault(item.says, f"mistake {item.name}")
    for name, question in lab.questions.items():
        found.setdefault(question.prompt, f"question {name}")
        for letter, option in question.options.items():
            found.setdefault(option.text, f"question {name}, option {letter}")
            if option.implies:
                found.setdefault(option.implies, f"question {name}, if {letter} were true")
    return found


def _in_checks(tree: ast.Module, known: Mapping[str, Any]) -> Iterator[str]:
    """The texts in the source of checks; `known`: what its names stand for."""
    own = {node.name: node.args for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            given = reversed(list(zip(reversed(node.args.args), reversed(node.args.defaults))))
            for argument, value in given:
                yield from _words(argument.arg, value, known)
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in KEYWORDS:
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))
            continue
        for parameter, value in zip(_parameters(node.func, own, known), node.args):
            yield from _words(parameter, value, known)
        for word in node.keywords:
            yield from _words(word.arg or "", word.value, known)


def _parameters(function: ast.expr, own: Mapping[str, ast.arguments], known: Mapping[str, Any]) -> list[str]:
    """The names of the positional parameters of what is called; none where that cannot be told."""
    if isinstance(function, ast.Name) and function.id in own:
        return [argument.arg for argument in own[function.id].args]
    if isinstance(function, ast.Name):
        target = known.get(function.id)
    elif isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        target = getattr(known.get(function.value.id), function.attr, None)
    else:
        target = None
    ours = str(getattr(target, "__module__", "")).startswith("autograder")
    if not ours or not callable(target):
        return []
    try:
        return list(inspect.signature(target).parameters)
    except ValueError:  # an exception that takes whatever it is given
        return []


def _words(parameter: str, value: ast.expr, known: Mapping[str, Any]) -> Iterator[str]:
    text = value.value if isinstance(value, ast.Constant) else known.get(getattr(value, "id", ""))
    if not isinstance(text, str):
        return
    if parameter == "axes":
        yield from text.split()
    elif parameter in ("name", "when", "gap") and " " in text:
        yield text


@cache
def of_framework() -> Catalog:
    """The texts of the framework, with their places."""
    from babel.messages.catalog import Catalog
    from babel.messages.extract import extract_from_dir

    found = Catalog()
    kinds = [("**.py", "python"), ("reports/**.html", "jinja2.ext:babel_extract")]
    with redirect_stderr(io.StringIO()):  # it warns of an f-string among the values, which is none of its business
        for file, _, text, _, _ in extract_from_dir(PACKAGE, kinds, keywords=KEYWORDS):
            found.add(text, auto_comments=[file])
    return found


def template(lab: Lab) -> Catalog:
    """The texts of a lab that are not of the framework, with their places."""
    from babel.messages.catalog import Catalog

    found, general = Catalog(), of_framework()
    for text, place in of_lab(lab).items():
        if text not in general:
            found.add(text, auto_comments=[place])
    return found


def update(path: Path, wanted: Catalog, language: str) -> list[str]:
    """Write a `.po` with all texts that are wanted and the translations that it had, and its `.mo`; says what is open.

    A changed text keeps its translation, marked as fuzzy: it is not said before somebody has looked at it.
    """
    from babel.messages.pofile import write_po

    catalog = read(path, language)
    catalog.update(wanted, update_header_comment=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        lines = "".join(f'"{line}\\n"\n' for line in header(catalog).splitlines())
        file.write(f'msgid ""\nmsgstr ""\n{lines}\n'.encode())
        write_po(file, catalog, omit_header=True, width=100, no_location=True)
    path.with_suffix(".mo").write_bytes(compiled(translated(catalog)))
    return [f"{path}: {fault}" for fault in faults(catalog)]


def read(path: Path, language: str) -> Catalog:
    """A `.po` as it stands; an empty catalogue where there is none. Raises AuthoringError where it is no `.po`."""
    from babel.messages.catalog import Catalog
    from babel.messages.pofile import PoFileError, read_po

    if not path.exists():
        return Catalog(locale=language)
    try:
        with path.open("rb") as file:
            return read_po(file, locale=language, abort_invalid=True)
    except (PoFileError, UnicodeDecodeError) as error:
        raise AuthoringError(f"{path} is no catalogue of translations: {error}") from error


def faults(catalog: Catalog) -> list[str]:
    """What is missing or not certain in a catalogue, one sentence for each text."""
    found = []
    for message in catalog:
        if not message.id:
            continue
        source, said = _both(message)
        if not all(said):
            found.append(f"not translated: {source[0]!r}")
        elif message.fuzzy:
            found.append(f"changed, so look at it and take out the word fuzzy: {source[0]!r}")
        elif any(places(text) != places(source[-1]) for text in said):
            found.append(f"other {{names}} in braces than the English text: {source[0]!r}")
    return found + [f"no longer in use: {text!r}" for text in catalog.obsolete]


def _both(message: Any) -> tuple[list[str], list[str]]:
    source, said = ([text] if isinstance(text, str) else list(text or [""]) for text in (message.id, message.string))
    return source, said


def places(text: str) -> list[str]:
    """The `{names}` of a template, sorted; of a text that is none, that it is none."""
    from string import Formatter

    try:
        return sorted(name for _, name, _, _ in Formatter().parse(text) if name is not None)
    except ValueError:
        return ["no template"]


def header(catalog: Catalog) -> str:
    """What a catalogue says of itself. No names and no times: the same texts give the same bytes."""
    plurals = f"nplurals={catalog.num_plurals}; plural={catalog.plural_expr};"
    kind = "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit"
    return f"Language: {catalog.locale_identifier}\n{kind}\nPlural-Forms: {plurals}\n"


def translated(catalog: Catalog) -> dict[str, str]:
    """What a catalogue says: text → translation, as a `.mo` keeps them."""
    found = {"": header(catalog)}
    for message in catalog:
        source, said = _both(message)
        whole = all(said) and all(places(text) == places(source[-1]) for text in said)
        if message.id and whole and not message.fuzzy:
            found["\0".join(source)] = "\0".join(said)
    return found


def languages(root: Path, name: str) -> list[str]:
    """The languages that a lab has a catalogue in."""
    return sorted(path.stem for path in (root / "assignments" / name / "locale").glob("*.po"))


def update_lab(name: str, root: Path, language: str) -> list[str]:
    """Bring a lab's catalogue up to date; says what is open."""
    path = root / "assignments" / name / "locale" / f"{language}.po"
    return update(path, template(labs.load(name, root)), language)


def update_framework(language: str) -> list[str]:
    """Bring the framework's catalogue up to date; says what is open."""
    if language == ENGLISH:
        raise AuthoringError("English is the language that the texts are written in: name another one")
    return update(FOLDER / language / "LC_MESSAGES" / "autograder.po", of_framework(), language)
