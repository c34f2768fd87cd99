"""The committed starter_code/ is what the references make, and holds no line of a solution."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from conftest import ROOT
from tiny import change, make_course

from autograder import bundle, course
from autograder import lab as labs
from autograder.check import AuthoringError
from autograder.strip import find_solution, solution_lines

LABS = course.labs(ROOT)


def committed(name: str) -> dict[str, bytes]:
    folder = ROOT / "starter_code" / name
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.parametrize("name", LABS)
def test_the_committed_starter_is_what_the_reference_makes(name: str) -> None:
    made = bundle.starter_files(labs.load(name, ROOT))
    assert made == bundle.starter_files(labs.load(name, ROOT))
    found = committed(name)
    assert set(found) == set(made), f"run `make starter LAB={name}`"
    for path, data in made.items():
        assert found[path] == data, (
            f"starter_code/{name}/{path} is not what the reference makes: make starter LAB={name}"
        )


def test_no_starter_is_left_of_a_lab_that_is_gone() -> None:
    assert {path.name for path in (ROOT / "starter_code").iterdir()} == set(LABS)


@pytest.mark.parametrize("name", LABS)
def test_the_starter_holds_no_line_of_a_solution(name: str) -> None:
    lab = labs.load(name, ROOT)
    solution = [line for _, text in lab.reference.files.values() for line in solution_lines(text)]
    assert len(solution) > 10
    for path, data in bundle.starter_files(lab).items():
        assert find_solution(solution, data.decode(), python=path.endswith(".py")) == [], path
    main = committed(name)[lab.file.main].decode()
    assert not re.search("(BEGIN|END) (SOLUTION|STARTER)", main)
    assert "make starter" in main.split("\n\n")[0]


@pytest.mark.parametrize("name", LABS)
def test_every_part_has_its_todo(name: str) -> None:
    lab = labs.load(name, ROOT)
    main = committed(name)[lab.file.main].decode()
    ast.parse(main)
    todos = set(re.findall(r"TODO (\d+\.\d+):", main))
    assert todos == {section.number for section in lab.file.sections}


@pytest.mark.parametrize("name", LABS)
def test_the_questions_stand_in_the_handout_without_their_answers(name: str) -> None:
    lab = labs.load(name, ROOT)
    handout = committed(name)["README.md"].decode()
    assert bundle.QUESTIONS_MARK not in handout
    for question, asked in lab.questions.items():
        assert f"### {question}\n" in handout
        assert asked.prompt.strip() in handout
        for option in asked.options.values():
            assert option.text in handout
            assert not option.implies or option.implies.strip() not in handout


def test_the_handout_needs_a_place_for_its_questions(tmp_path: Path) -> None:
    root = make_course(tmp_path)
    readme = root / "assignments" / "tiny" / "README.md"
    assert "- **B** It makes 6 of it." in bundle.handout(labs.load("tiny", root))
    change(readme, bundle.QUESTIONS_MARK, "")
    with pytest.raises(AuthoringError, match=r"README\.md: the line <!-- questions --> must stand there once"):
        bundle.handout(labs.load("tiny", root))
    readme.unlink()
    with pytest.raises(AuthoringError, match=r"README\.md does not exist"):
        bundle.handout(labs.load("tiny", root))


def test_writing_the_starter_again_changes_nothing(tmp_path: Path) -> None:
    root = make_course(tmp_path)
    written = bundle.write_starter("tiny", root)
    assert [path.relative_to(root).as_posix() for path in written] == [
        "starter_code/tiny/tiny.py",
        "starter_code/tiny/README.md",
    ]
    before = [path.read_bytes() for path in written]
    bundle.write_starter("tiny", root)
    assert [path.read_bytes() for path in written] == before
    assert b"raise NotImplementedError" in before[0]
    assert b"result_of_doubling" not in before[0]
    assert b"\r" not in b"".join(before)
