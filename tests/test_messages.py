"""The catalogues of translations: nothing is missing, nothing is left over, and what is compiled is what is written."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from conftest import ROOT
from tiny import change, make_audited_course, make_chinese, make_course

from autograder import course, language, messages
from autograder import lab as labs
from autograder.check import AuthoringError
from autograder.cli import main
from autograder.diagnose import LONGEST
from autograder.language import words_in

FRAMEWORK = [lang for lang in language.known() if lang != language.ENGLISH]
LABS = [(name, lang) for name in course.labs(ROOT) for lang in messages.languages(ROOT, name)]
SOURCES = [*sorted((ROOT / "autograder").rglob("*.py")), *sorted((ROOT / "assignments").glob("*/checks.py"))]
# What a student reads of these stands in the first argument, or in the second.
SAYS = {"Mismatch": 0, "RuleBroken": 0, "expect": 1, "Note": 1, "Line": 1}


def is_sound(path: Path, lang: str, wanted: Catalog) -> None:
    catalog = messages.read(path, lang)
    there = {message.id for message in catalog if message.id}
    texts = [message.id for message in wanted if message.id]
    assert [text for text in texts if text not in there] == [], "run `make messages`, and translate"
    assert [text for text in there if text not in wanted] == [], "run `make messages`"
    assert messages.faults(catalog) == []
    assert path.with_suffix(".mo").read_bytes() == language.compiled(messages.translated(catalog)), "run `make messages`"


@pytest.mark.parametrize("lang", FRAMEWORK)
def test_the_framework_is_translated_whole(lang: str) -> None:
    assert len(messages.of_framework()) > 200
    is_sound(language.FOLDER / lang / "LC_MESSAGES" / "autograder.po", lang, messages.of_framework())


@pytest.mark.parametrize("name, lang", LABS)
def test_a_lab_is_translated_whole(name: str, lang: str) -> None:
    lab = labs.load(name, ROOT)
    is_sound(lab.folder / "locale" / f"{lang}.po", lang, messages.template(lab))
    with language.speaking(lang, lab.folder):
        for item in lab.mistakes:
            assert words_in(language.say(item.says)) <= LONGEST, item.name


@pytest.mark.parametrize("name, lang", LABS)
def test_a_handout_in_another_language_has_all_that_the_english_one_has(name: str, lang: str) -> None:
    folder = ROOT / "assignments" / name
    if not (folder / f"README.{lang}.md").exists():
        return  # which is allowed: the lab hands out the English one
    english, other = ((folder / file).read_text(encoding="utf-8") for file in ("README.md", f"README.{lang}.md"))
    for what, pattern in {
        "marks": r"<!--.*?-->",
        "sections": r"^#{2,3} \**(\d+\.\d+)",
        "code": r"^```\w*$",
        "rows of tables": r"^\|.*\|$",
    }.items():
        found = [re.findall(pattern, text, re.MULTILINE) for text in (english, other)]
        if what == "rows of tables":
            assert len(found[0]) == len(found[1]), what
        else:
            assert found[0] == found[1], what


def test_a_sentence_for_students_is_one_template() -> None:
    put_together = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name, argument = _said(node)
            if name and isinstance(argument, ast.JoinedStr):
                put_together.append(f"{path.relative_to(ROOT)}:{argument.lineno}: {name}({ast.unparse(argument)})")
    assert put_together == [], "a sentence in pieces cannot be translated: say(\"… {name} …\", name=…)"


def _said(node: ast.AST) -> tuple[str, ast.expr | None]:
    if not isinstance(node, ast.Call):
        return "", None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    at = 0 if name in messages.KEYWORDS else SAYS.get(name)
    if name == "say_many":
        return next(((name, item) for item in node.args if isinstance(item, ast.JoinedStr)), (name, None))
    return (name, node.args[at]) if at is not None and len(node.args) > at else ("", None)


def test_every_template_is_said_with_its_values() -> None:
    wrong = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for text, given in _templates(node):
                if set(messages.places(text)) != given:
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {text!r} with {sorted(given)}")
    assert wrong == []


def _templates(node: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """Texts that are said where they stand, and the names of their values; none where these are in a dict."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("say", "say_many"):
        names = {word.arg for word in node.keywords}
        if None not in names:
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value, {name for name in names if name}


# How a catalogue comes about -----------------------------------------------------------------------------------------


def test_what_a_lab_says_is_collected(tmp_path: Path) -> None:
    found = messages.of_lab(labs.load("tiny", make_audited_course(tmp_path)))
    assert found["Tiny lab: twice as much"] == "lab.toml, title"
    assert found["Twice"] == "section 1.1"
    assert found["very long and very short inputs come out right"] == "check 1.1.2"
    assert found["the input is added once too often."] == "mistake three_times"
    assert found["What does doubling do to 3?"] == "question growth"
    assert found["Then doubling would be squaring."] == "question growth, if C were true"
    assert {text for text, place in found.items() if place == "words in checks.py"} == {"row", "column", "x after the call"}
    assert "FIRST" not in found and "double" not in found


def test_an_update_keeps_what_is_translated_and_tells_what_is_not(tmp_path: Path) -> None:
    root = make_course(tmp_path)
    catalogue = root / "assignments" / "tiny" / "locale" / "zh.po"
    assert any("not translated: 'twice the input'" in said for said in messages.update_lab("tiny", root, "zh"))
    make_chinese(root)
    before = catalogue.read_bytes(), catalogue.with_suffix(".mo").read_bytes()
    assert messages.update_lab("tiny", root, "zh") == []
    assert (catalogue.read_bytes(), catalogue.with_suffix(".mo").read_bytes()) == before
    change(root / "assignments" / "tiny" / "checks.py", '"""twice the input"""', '"""twice the inputs"""')
    (fault,) = messages.update_lab("tiny", root, "zh")
    assert fault.endswith("changed, so look at it and take out the word fuzzy: 'twice the inputs'")
    with labs.load("tiny", root, lang="zh").speaking():
        assert language.say("twice the inputs") == "twice the inputs", "what nobody has looked at is not said"
    change(root / "assignments" / "tiny" / "checks.py", '"""twice the inputs"""', '"""2 x"""')
    faults = messages.update_lab("tiny", root, "zh")
    assert any("not translated: '2 x'" in said for said in faults)
    assert any("no longer in use: 'twice the inputs'" in said for said in faults)


def test_a_translation_has_the_same_names_in_braces(tmp_path: Path) -> None:
    root = make_course(tmp_path)
    change(
        root / "assignments" / "tiny" / "checks.py",
        'expect(after, "x after the call")',
        'expect(after, language.say("{name} behind the call", name="x"))',
    )
    change(root / "assignments" / "tiny" / "checks.py", "from autograder import laws,", "from autograder import language, laws,")
    make_chinese(root)
    catalogue = root / "assignments" / "tiny" / "locale" / "zh.po"
    change(catalogue, "译文：{name} behind", "译文：{nome} behind")
    (fault,) = messages.update_lab("tiny", root, "zh")
    assert fault.endswith("other {names} in braces than the English text: '{name} behind the call'")
    with labs.load("tiny", root, lang="zh").speaking():
        assert language.say("{name} behind the call", name="x") == "x behind the call", "it would stop the grading"


def test_the_command_says_what_is_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_course(tmp_path)
    assert main(["--course", str(root), "messages", "tiny"]) == 1
    assert f"{root}/assignments/tiny/locale/zh.po: not translated: 'Twice'" in capsys.readouterr().out
    make_chinese(root)
    assert main(["--course", str(root), "messages", "tiny"]) == 0
    assert capsys.readouterr().out == ""


def test_what_is_no_catalogue_is_told(tmp_path: Path) -> None:
    root = make_course(tmp_path)
    path = root / "assignments" / "tiny" / "locale" / "zh.po"
    path.parent.mkdir()
    path.write_text('msgid "no end\n', encoding="utf-8")
    with pytest.raises(AuthoringError, match=r"zh\.po is no catalogue of translations"):
        messages.update_lab("tiny", root, "zh")
    with pytest.raises(AuthoringError, match="English is the language that the texts are written in"):
        messages.update_framework("en")
