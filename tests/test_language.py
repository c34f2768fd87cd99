"""The language of a grading: what is said, how it is put together, how long it is, and how wide."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from rich.cells import cell_len
from test_reports import result
from tiny import change, make_chinese, make_course

from autograder import course, language
from autograder import lab as labs
from autograder.check import AuthoringError, Mismatch, expect
from autograder.language import checked, compiled, excerpt, filled, known, retold, say, say_many, speaking, words_in
from autograder.reports.console import CLOSING, OPENING, wrapped
from autograder.reports.words import GAP_LINES, GAP_WORDS, WORDS, explain


def test_english_reads_no_catalogue() -> None:
    program = (
        "import sys; from autograder.language import say, speaking\n"
        "with speaking('en'): print(say('{n} of {m}', n=1, m=2), 'gettext' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "1 of 2 False\n"


def test_a_language_is_spoken_inside_and_not_behind() -> None:
    assert say("passed") == "passed"
    with speaking("zh"):
        assert say("passed") == "通过"
        with speaking("en"):
            assert say("passed") == "passed"
        assert say("passed") == "通过"
        heard: list[str] = []
        other = threading.Thread(target=lambda: heard.append(say("passed")))
        other.start()
        other.join()
        assert heard == ["passed"], "what one thread speaks is none of another's business"
    assert say("passed") == "passed"


def test_what_no_catalogue_has_is_said_in_english() -> None:
    with speaking("zh"):
        assert say("a sentence of {number} words that nobody has translated", number=9).startswith("a sentence of 9")
        assert say("") == ""
    with speaking("tlh"):  # of a record that comes from elsewhere
        assert say("passed") == "passed"


def test_braces_of_a_hand_in_are_its_own() -> None:
    for spoken in ("en", "zh"):
        with speaking(spoken):
            assert say("{file} was not handed in.", file="{x!r}.py").count("{x!r}.py") == 1
            assert say("{0} {name.__class__}") == "{0} {name.__class__}"


def test_numbers_are_counted_as_the_language_counts_them() -> None:
    one, many = "{number} attempt is", "{number} attempts are"
    assert [say_many(number, one, many, number=number) for number in (1, 2)] == ["1 attempt is", "2 attempts are"]
    with speaking("zh"):
        assert say_many(2, one, many, number=2) == "2 attempts are"


@pytest.mark.parametrize(
    "template, value, whole",
    [
        ("{x} 是一个数", "y", "y 是一个数"),
        ("{x} 是一个数", "权重", "权重是一个数"),
        ("{x}是一个数", "weights[0]", "weights[0] 是一个数"),
        ("在 {x} 处", "序列 0", "在序列 0 处"),
        ("在{x}处", "[0, 3]", "在 [0, 3] 处"),
        ("调用之后，{x}", "x", "调用之后，x"),
        ("应为 {x}。", "-0.5", "应为 -0.5。"),
        ("第{x}行", "3", "第 3 行"),
        ("提交：{x}", "作业1.py", "提交：作业1.py"),
        ("{x}", "作业1.py", "作业1.py"),
        ("{x}的值", "", "的值"),
    ],
)
def test_one_space_stands_between_chinese_and_other_words(template: str, value: str, whole: str) -> None:
    assert filled(template, {"x": value}) == whole


def test_a_finding_in_chinese() -> None:
    with speaking("zh"), pytest.raises(Mismatch) as found:
        expect(2.5, "the output").is_near(3.0, 0.1)
    assert found.value.gap == "输出是 2.5，应为 3。"


def test_what_a_guest_says_in_english_is_told_anew() -> None:
    templates = ("{name} will be said so: {why}", "nobody translates {this}")
    sentence = "this needs SelfAttention, and attention.py was not handed in"
    known_one = ("this needs {name}, and {file} was not handed in",)
    assert retold(sentence, known_one) == sentence
    with speaking("zh"):
        assert retold(sentence, known_one) == "这里要用到 SelfAttention，而没有提交 attention.py"
        assert retold(sentence, templates) == sentence


@pytest.mark.parametrize(
    "text, words",
    [
        ("", 0),
        ("three words here", 3),
        ("权重之和", 2),
        ("权重之和是 1。", 4),
        ("y 在序列 0 处是 -1.5，应为 2", 8),
        ("naïve café", 2),
    ],
)
def test_two_characters_are_about_a_word(text: str, words: int) -> None:
    assert words_in(text) == words


def test_a_long_finding_in_chinese_is_cut_between_characters() -> None:
    sentence = "第一个读取方读到的内容与应有的不同，" * 40
    line, *rest = explain(result(gap=sentence, cause=""))
    assert WORDS - 2 <= sum(words_in(f"{item.label} {item.text}") for item in (line, *rest)) <= WORDS
    assert line.text.endswith("…") and sentence.startswith(line.text.rstrip("…"))
    gap, cause, *_ = told = explain(result(gap=sentence, cause=sentence))
    assert GAP_WORDS - 2 <= words_in(gap.text) <= GAP_WORDS
    assert words_in(cause.text) > 30 and sum(words_in(f"{item.label} {item.text}") for item in told) <= WORDS
    long_word = explain(result(gap=f"输出是 {'x' * 500}"))[0].text
    assert len(long_word) < 260 and long_word.endswith("…")
    assert sum(not item.label for item in explain(result(gap=f"{sentence[:20]}\n" * 20))) == GAP_LINES


@pytest.mark.parametrize("width", [9, 20, 33, 60, 200])
def test_lines_in_chinese_fill_their_width_and_break_where_they_may(width: int) -> None:
    text = "y 在序列 0、读取方 3 处是 -1.599，应为 -0.9769。“softmax” 沿来源（最后一个轴）计算，"
    text += "不".join("字词" * 20) + "（隐藏）"
    lines = wrapped(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(cell_len(line) <= width for line in lines)
    if width >= 20:
        assert all(cell_len(line) > width - 12 for line in lines[:-1])
        assert not any(line[0] in CLOSING or line[-1] in OPENING for line in lines)
        assert lines[-1].endswith("（隐藏）")


def test_a_catalogue_is_written_as_gettext_reads_it(tmp_path: Path) -> None:
    from gettext import GNUTranslations

    said = {"": "Content-Type: text/plain; charset=utf-8\n", "one": "一", "two": "二", "three{n}": "三{n}"}
    path = tmp_path / "zh.mo"
    path.write_bytes(compiled(said))
    with path.open("rb") as file:
        read = GNUTranslations(file)
    assert [read.gettext(text) for text in ("one", "two", "three{n}", "four")] == ["一", "二", "三{n}", "four"]
    assert excerpt(path, ["two", "four"]) == compiled({"": said[""], "two": "二"})


def test_the_languages_are_those_that_there_is_a_catalogue_of() -> None:
    assert known() == ["en", "zh"]
    assert checked("zh") == "zh"


@pytest.mark.parametrize("wrong, advice", [("zn", "did you mean 'zh'?"), ("EN", "did you mean 'en'?"), ("xx", "there is en, zh")])
def test_an_unknown_language_is_told_with_the_nearest(wrong: str, advice: str, tmp_path: Path) -> None:
    (tmp_path / "course.toml").write_text(f'language = "{wrong}"\n')
    with pytest.raises(AuthoringError) as told:
        course.settings(tmp_path)
    assert str(told.value) == f"{tmp_path}/course.toml: language: '{wrong}' is no language of this grader; {advice}"


def test_an_unknown_language_of_a_command_is_a_sentence(root: Path) -> None:
    command = [sys.executable, "-m", "autograder", "grade", "attention", "reference/attention", "--lang", "zz"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "argument --lang: 'zz' is no language of this grader; " in done.stderr


def test_a_lab_speaks_its_own_language_and_falls_back(tmp_path: Path) -> None:
    root = make_course(tmp_path)
    (root / "course.toml").write_text('language = "zh"\n')
    lab = labs.load("tiny", root)
    assert (lab.language, lab.handout) == ("zh", "README.md")
    with lab.speaking():
        assert say("twice the input") == "twice the input"
        assert say("passed") == "通过"
    make_chinese(root)
    change(root / "course.toml", '"zh"', '"en"')
    assert labs.load("tiny", root).language == "en"
    lab = labs.load("tiny", root, lang="zh")
    assert (lab.language, lab.handout) == ("zh", "README.zh.md")
    with lab.speaking():
        assert say("twice the input") == "译文：twice the input"
        assert say("passed") == "通过"
    assert [path.name for path in language.files("zh", lab.folder)] == ["autograder.mo", "zh.mo"]
