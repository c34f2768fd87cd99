"""A grading in Chinese, from the hand-in to each report: the same points, and no English sentence is left in it.

Of the labs: those that have a Chinese catalogue.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import class_tiny
import pytest
from conftest import ROOT
from rich.cells import cell_len
from rich.console import Console
from tiny import change, make_chinese, make_course

from autograder import bundle, course, language, leaks, messages, structure
from autograder import lab as labs
from autograder.classroom.jobs import grader_digest
from autograder.classroom.run import Wish, grade_all
from autograder.classroom.shelf import Shelf
from autograder.demo import examples
from autograder.gradescope import run as platform
from autograder.language import is_cjk
from autograder.reports import console, feedback, gradescope, words
from autograder.result import Record
from autograder.sandbox.launcher import Zygote
from autograder.session import Session
from autograder.submission import collect

LABS = [name for name in course.labs(ROOT) if "zh" in messages.languages(ROOT, name)]


def graded(lab: labs.Lab, path: Path, session: Session) -> Record:
    with lab.speaking():
        submission = collect(path, lab.wanted)
    return Session(lab, session.zygote, session.reference).grade(submission)


def sentences(record: Record) -> Iterator[str]:
    """Every text of a record that a student reads as a sentence; code and what was printed is theirs."""
    yield from (record.title, *record.notes, *(section.title for section in record.sections))
    for result in words.for_student(record).results:
        yield from (result.title, result.gap, result.cause)
        yield from (text for panel in result.panels for text in (panel.row_axis, panel.column_axis, panel.place, panel.cut))
        yield from (line.text for line in words.explain(result) if line.kind not in ("where", "printed", "read"))


@pytest.mark.parametrize("name", LABS)
def test_examples_in_chinese_have_the_same_points_and_no_english_sentence(
    name: str, session: Callable[[str], Session]
) -> None:
    warm = session(name)
    chinese = labs.load(name, ROOT, lang="zh")
    for example, path in examples(name, ROOT).items():
        english, record = graded(warm.lab, path, warm), graded(chinese, path, warm)
        assert (record.language, english.language) == ("zh", "en")
        assert [(r.number, r.status, r.score, r.mistakes) for r in record.results] == [
            (r.number, r.status, r.score, r.mistakes) for r in english.results
        ], example
        for text in sentences(record):
            # A symbol alone, or a TODO of the starter, has nothing in it to translate.
            spoken = re.sub(r"TODO \d.*|`[^`]*`", "", text)
            assert any(map(is_cjk, text)) or not re.search(r"[A-Za-z]{2,}[ ,]+[A-Za-z]{2,}", spoken), (example, text)


@pytest.mark.parametrize("name", LABS)
def test_what_is_handed_out_in_chinese_tells_nothing_more(name: str, zygote: Zygote) -> None:
    lab = labs.load(name, ROOT)
    made = {file: text.encode() for file, text in bundle.handouts(lab).items()}
    checks = bundle.visible_lab(labs.local_part(lab))["checks.py"].decode()
    made |= bundle.translations(replace(labs.local_part(lab), questions={}), checks)
    assert leaks.scan(made, lab, zygote) == []
    assert structure.links(lab) == []
    titles = {check.title for check in lab.checks if check.local}
    with language.speaking("zh", lab.folder):
        hidden = {language.say(c.title) for c in lab.checks if c.hidden and c.title not in titles}
        hidden -= {language.say(title) for title in titles}
    catalogue = made[f"_check/assignments/{name}/locale/zh.mo"].decode("utf-8", "replace").split("\0")
    assert not hidden & set(catalogue)
    implied = {option.implies for question in lab.questions.values() for option in question.options.values()}
    assert not (implied - {""}) & set(catalogue)


@pytest.fixture(scope="module")
def tiny_course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The miniature course, in Chinese."""
    root = class_tiny.course(tmp_path_factory.mktemp("course"))
    make_chinese(root)
    (root / "course.toml").write_text('language = "zh"\n')
    return root


HAND_IN = "import torch\n\n\ndef double(x):\n    print('half of it')\n    return x / 2\n\n\nANSWERS = {'growth': 'A'}\n"


@pytest.fixture(scope="module")
def record(tiny_course: Path, zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Record:
    """A wrong hand-in, graded in Chinese."""
    path = tmp_path_factory.mktemp("hand-in") / "tiny.py"
    path.write_text(HAND_IN)
    lab = labs.load("tiny", tiny_course)
    session = Session(lab, zygote)
    with lab.speaking():
        submission = collect(path, lab.wanted)
    found = session.grade(submission)
    session.close_reference()
    return found


def test_the_record_is_in_chinese(record: Record) -> None:
    assert record.title == "译文：Tiny lab: twice as much"
    found = {result.check: result for result in record.results}
    assert re.fullmatch(
        r"输出在译文：row \d、译文：column \d 处是 -?[\d.]+，应为 -?[\d.]+。12 个值中有 12 个不同。", found["doubled"].gap
    )
    assert found["doubled"].read == "README.zh.md#twice"
    assert found["answer_growth"].gap == "不是 A。译文：Then doubling would add two."
    assert found["doubled"].panels[0].row_axis == "译文：row"


def test_reports_speak_the_language_of_the_record(record: Record) -> None:
    page = feedback.page(record, course.Settings())
    assert '<html lang="zh-Hans">' in page and "PingFang SC" in page
    for text in ("提交 <code>tiny.py</code>", "从这里开始：", "<dt>出处</dt>", "<dt>输出</dt>", "应为", "被 1.1.1 阻挡"):
        assert text in page
    assert not re.search(r">\s*(?:Where|Read|Cause|Printed|passed|failed|expected|yours|Sections|hidden)\s*<", page)
    found = gradescope.results(record, course.Settings())
    assert found.output.splitlines()[0] == "0 / 4.5 分"
    assert "<strong>出处</strong>" in found.tests[0].output
    assert '<div class="labcheck" lang="zh-Hans">' in feedback.cell(record)
    assert words.score_words(record.results[1]) == "blocked by 1.1.1", "outside of a report nothing was changed"


def test_a_report_is_not_mixed_with_one_in_another_language(record: Record) -> None:
    english = record.model_copy(update={"language": "en"})
    settings = course.Settings()
    for _ in range(2):
        assert "出处" in gradescope.results(record, settings).tests[0].output
        assert "Where" in gradescope.results(english, settings).tests[0].output


@pytest.mark.parametrize("width", [40, 64, 100])
def test_columns_stand_in_line_in_a_terminal(record: Record, width: int) -> None:
    out = Console(file=io.StringIO(), width=width, highlight=False, color_system=None)
    console.render(record, out)
    lines = out.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert all(cell_len(line) <= width for line in lines)
    scores = [line for line in lines if re.search(r"(?:\d / [\d.]+|阻挡|分)$", line)]
    assert len(scores) >= 6
    assert {cell_len(line) for line in scores} == {width}
    labelled = [re.match(r"    (出处|阅读|输出)  (?=\S)", line) for line in lines]
    assert {found[1] for found in labelled if found} == {"出处", "阅读", "输出"}


def test_a_class_is_graded_in_chinese_and_kept_by_language(tiny_course: Path, tmp_path: Path) -> None:
    english, chinese = (labs.load("tiny", tiny_course, lang=lang) for lang in ("en", "zh"))
    assert grader_digest(english) != grader_digest(chinese)
    students = tmp_path / "class"
    for name in ("ann", "dee"):
        (students / name).mkdir(parents=True)
        (students / name / "tiny.py").write_text(class_tiny.SOURCES[name])
    for lang, sentence in (("", "处是"), ("en", "expected")):
        wish = Wish("tiny", students, tmp_path / "out", workers=1, lang=lang)
        assert grade_all(wish, tiny_course) == 0
        page = (tmp_path / "out" / "feedback" / "dee.html").read_text()
        assert sentence in page
    kept = [Shelf(tmp_path / "out" / "records").get(path.stem) for path in (tmp_path / "out" / "records").iterdir()]
    assert sorted(found.language for found in kept if found) == ["en", "en", "zh", "zh"]
    assert '<html lang="en">' in (tmp_path / "out" / "class.html").read_text(), "for those who teach"


def test_the_platforms_file_is_in_the_courses_language(tiny_course: Path, tmp_path: Path) -> None:
    (tmp_path / "submission").mkdir()
    (tmp_path / "submission" / "tiny.py").write_text(HAND_IN)
    (tmp_path / "submission_metadata.json").write_text('{"id": 7}')
    assert platform.main("tiny", tmp_path, tiny_course) == 0
    document = json.loads((tmp_path / "results" / "results.json").read_text())
    assert "应为" in document["tests"][0]["output"]
    (tmp_path / "submission" / "tiny.py").unlink()
    assert platform.main("tiny", tmp_path, tiny_course) == 0
    document = json.loads((tmp_path / "results" / "results.json").read_text())
    assert "没有找到 tiny.py：里面没有能读取的文件" in document["output"]


def test_a_students_copy_speaks_the_courses_language(tiny_course: Path, tmp_path: Path) -> None:
    folder = tmp_path / "student"
    lab = labs.load("tiny", tiny_course)
    with zipfile.ZipFile(io.BytesIO(bundle.zipped(bundle.student_files(lab)))) as archive:
        archive.extractall(folder)
    assert "- **B** 译文：It makes 6 of it." in (folder / "README.zh.md").read_text(encoding="utf-8")
    assert "- **B** It makes 6 of it." in (folder / "README.md").read_text(encoding="utf-8")
    (folder / "tiny.py").write_text(HAND_IN)

    def run(*arguments: str) -> str:
        command = [sys.executable, "check.py", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        return done.stdout

    told = run()
    assert "处是" in told and "README.zh.md#twice" in told and "总分" in told
    assert "expected" in run("--lang", "en")
    done = subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=folder, capture_output=True, text=True, check=False)
    assert "译文：twice the input" in done.stdout and "出处" in done.stdout
    in_cell = (
        "import sys; sys.path.insert(0, '_check'); from pathlib import Path; from autograder.local.worksheet import check; "
        "print(repr(check(Path('.').resolve(), 'doubled', [])))"
    )
    done = subprocess.run([sys.executable, "-c", in_cell], cwd=folder, capture_output=True, text=True, check=False)
    assert "1.1.1 译文：twice the input" in done.stdout and "出处" in done.stdout


def test_a_handout_without_an_anchor_is_found(tmp_path: Path) -> None:
    root = make_course(tmp_path)
    make_chinese(root)
    lab = labs.load("tiny", root)
    assert structure.links(lab) == []
    change(root / "assignments/tiny/README.zh.md", '<a id="twice"></a>\n', "[见](#nowhere)\n")
    found = structure.links(lab)
    assert any("links to #twice, which the handout README.zh.md has not" in fault for fault in found)
    assert "assignments/tiny/README.zh.md links to #nowhere, which it has not" in found


def test_an_answer_and_a_hidden_title_in_chinese_are_leaks(tmp_path: Path, zygote: Zygote) -> None:
    root = make_course(tmp_path)
    make_chinese(root)
    lab = labs.load("tiny", root)
    title = "译文：very long and very short inputs come out right"
    texts = {"a.md": "growth：答案是 B", "b.md": f"检查 {title}", "c.md": "### growth\n\n正确答案：B\n"}
    files = {file: text.encode() for file, text in texts.items()}
    found = {(leak.file, leak.what.split(":")[0]) for leak in leaks.scan(files, lab, zygote)}
    assert ("a.md", "a right answer") in found and ("c.md", "a right answer") in found
    assert ("b.md", "the title of a hidden check") in found
