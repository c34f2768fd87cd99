"""Files, folders, zips and notebooks: which file is taken, what is said, what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from handins import GOOD, NOTEBOOK, ONE, OTHER, TWO, put, said, zip_of

from autograder.submission import CollectError, collect


class TestWhatIsTaken:
    def test_a_file(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"attention.py": GOOD}) / "attention.py", ONE)
        assert found.files == {"attention.py": GOOD}
        assert (found.missing, found.notes, found.name) == ((), (), "attention.py")

    def test_neighbours_of_a_single_file_are_not_part_of_it(self, tmp_path: Path) -> None:
        put(tmp_path, {"attention.py": GOOD, "other_student.py": OTHER})
        assert collect(tmp_path / "attention.py", ONE).helpers == {}

    @pytest.mark.parametrize("inside", ["", "work/", "a/b/c/"])
    def test_a_folder_and_folders_in_it(self, tmp_path: Path, inside: str) -> None:
        found = collect(put(tmp_path, {f"{inside}attention.py": GOOD}), ONE)
        assert found.files == {"attention.py": GOOD}
        assert found.origins == {"attention.py": f"{inside}attention.py"}

    @pytest.mark.parametrize("inside", ["", "work/", "a/b/c/", "windows\\"])
    @pytest.mark.parametrize("name", ["hand-in.zip", "hand-in", "attention.py"])
    def test_a_zip_by_its_content(self, tmp_path: Path, inside: str, name: str) -> None:
        found = collect(zip_of(tmp_path, [(f"{inside}attention.py", GOOD)], name), ONE)
        assert found.files == {"attention.py": GOOD}

    def test_a_notebook_in_place_of_the_file(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"worksheet.ipynb": NOTEBOOK}), ONE)
        assert found.files == {"attention.py": NOTEBOOK}
        assert found.origins == {"attention.py": "worksheet.ipynb"}
        assert "worksheet.ipynb was taken as attention.py" in said(found)

    def test_a_notebook_as_single_file(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"my work.ipynb": NOTEBOOK}) / "my work.ipynb", ONE)
        assert found.origins == {"attention.py": "my work.ipynb"}

    def test_files_come_in_the_order_of_the_lab(self, tmp_path: Path) -> None:
        put(tmp_path, {"attention.py": GOOD, "multihead.py": OTHER})
        assert list(collect(tmp_path, TWO).files) == ["multihead.py", "attention.py"]

    def test_the_worksheet_beside_the_file_is_no_rival(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"attention.py": GOOD, "worksheet.ipynb": NOTEBOOK, "check.py": OTHER}), ONE)
        assert (found.files, found.helpers, found.notes) == ({"attention.py": GOOD}, {}, ())

    def test_generated_and_hidden_things_are_left_out(self, tmp_path: Path) -> None:
        hidden = ["__MACOSX/", ".git/", "__pycache__/", ".ipynb_checkpoints/", ".venv/", "a/.hidden/", "."]
        put(tmp_path, {f"{folder}attention.py": OTHER for folder in hidden})
        found = collect(tmp_path, ONE)
        assert (found.files, found.missing) == ({}, ONE)
        archive = zip_of(tmp_path, [(f"{folder}attention.py", OTHER) for folder in hidden] + [("x/attention.py", GOOD)])
        assert collect(archive, ONE).files == {"attention.py": GOOD}

    def test_the_apple_double_of_a_file(self, tmp_path: Path) -> None:
        archive = zip_of(tmp_path, [("w/._attention.py", b"\0\5\x16\7"), ("w/attention.py", GOOD)])
        found = collect(archive, ONE)
        assert (found.files, found.notes) == ({"attention.py": GOOD}, ())

    def test_a_zip_in_a_folder_that_holds_nothing_else(self, tmp_path: Path) -> None:
        zip_of(tmp_path, [("attention.py", GOOD)], "sub.zip")
        found = collect(tmp_path, ONE)
        assert found.files == {"attention.py": GOOD}
        assert "sub.zip was opened" in said(found)

    def test_odd_names_of_the_hand_in(self, tmp_path: Path) -> None:
        for name in ["a, b", "it's", "“q”", "张伟", "🙂", "אב", "x" * 200]:
            found = collect(put(tmp_path / name, {"attention.py": GOOD}), ONE)
            assert (found.name, found.files) == (name, {"attention.py": GOOD})


class TestRenamed:
    @pytest.mark.parametrize(
        "name",
        [
            "attention (1).py",
            "attention-2.py",
            "Attention.py",
            "ATTENTION.PY",
            "attention.py.txt",
            "attention_final.py",
            "attention_final_v2 (3).py",
            "attention copy.py",
            "Copy of attention.py",
            "attention - 副本.py",
            "zhangwei_123_456_attention-1.py",
            "zhangwei_LATE_123_456_attention-1.py",
            "zhang_attention.py",
            "lab1 attention.py",
        ],
    )
    @pytest.mark.parametrize("single", [True, False])
    def test_a_changed_name_is_taken_and_said(self, tmp_path: Path, name: str, single: bool) -> None:
        put(tmp_path, {name: GOOD, "notes.txt": b"hello"})
        found = collect(tmp_path / name if single else tmp_path, ONE)
        assert found.files == {"attention.py": GOOD}
        assert f"{name} was taken as attention.py" in said(found)

    def test_not_where_the_right_name_exists(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"attention (1).py": OTHER, "deep/attention.py": GOOD}), ONE)
        assert found.files == {"attention.py": GOOD}
        assert "deep/attention.py was taken, attention (1).py not" in said(found)

    @pytest.mark.parametrize("name", ["test_attention.py", "attention_test.py", "attentions.py", "inattention.py"])
    def test_other_words_are_other_files(self, tmp_path: Path, name: str) -> None:
        found = collect(put(tmp_path, {name: GOOD, "b.py": OTHER, "c.py": OTHER}), ONE)
        assert found.missing == ONE

    @pytest.mark.parametrize("name", ["solution.py", "solution", "homework 1.txt"])
    def test_any_name_where_one_file_is_expected(self, tmp_path: Path, name: str) -> None:
        found = collect(put(tmp_path, {name: GOOD}) / name, ONE)
        assert found.files == {"attention.py": GOOD}
        assert f"{name} was taken as attention.py" in said(found)

    def test_the_only_source_of_a_folder(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"solution.py": GOOD, "readme.md": b"", "check.py": OTHER}), ONE)
        assert found.files == {"attention.py": GOOD}

    def test_two_files_of_the_lab_both_renamed(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"multihead_attention.py": GOOD, "attention (1).py": OTHER}), TWO)
        assert found.files["attention.py"] == OTHER
        assert found.files["multihead.py"] == GOOD

    def test_a_part_of_the_lab_alone_is_not_taken_for_the_main_file(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"attention.py": GOOD}) / "attention.py", TWO)
        assert found.files == {"attention.py": GOOD}
        assert found.missing == ("multihead.py",)

    def test_a_name_made_to_be_slow(self, tmp_path: Path) -> None:
        found = collect(
            put(tmp_path, {"attention" + "1" * 200 + "x.py": GOOD, "attention" + "1" * 200 + "y.py": GOOD}), ONE
        )
        assert found.missing == ONE


class TestTwoCandidates:
    def test_the_shallowest(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"z/attention.py": GOOD, "a/b/attention.py": OTHER}), ONE)
        assert found.files == {"attention.py": GOOD}
        assert "z/attention.py was taken, a/b/attention.py not" in said(found)

    def test_then_the_source_over_the_notebook(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"attention.ipynb": NOTEBOOK, "attention.py": GOOD}), ONE)
        assert found.files == {"attention.py": GOOD}
        assert "attention.py was taken, attention.ipynb not" in said(found)

    def test_depth_goes_before_kind(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"attention.ipynb": NOTEBOOK, "old/attention.py": GOOD}), ONE)
        assert found.origins == {"attention.py": "attention.ipynb"}

    def test_then_the_first_in_the_alphabet(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"b/attention.py": OTHER, "a/attention.py": GOOD}), ONE)
        assert found.files == {"attention.py": GOOD}

    def test_case_clash(self, tmp_path: Path) -> None:
        found = collect(
            zip_of(tmp_path, [("ATTENTION.py", OTHER), ("attention.py", GOOD), ("Attention.py", OTHER)]), ONE
        )
        assert (found.files, found.helpers) == ({"attention.py": GOOD}, {})
        assert "attention.py was taken" in said(found)

    def test_the_next_one_where_the_first_cannot_be_read(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"attention.py": b"#" * 2_000_000, "a/attention.py": GOOD}), ONE)
        assert found.files == {"attention.py": GOOD}
        assert "larger than is accepted: attention.py" in said(found)


class TestHelpers:
    def test_other_modules_beside_the_file(self, tmp_path: Path) -> None:
        files = {"w/attention.py": GOOD, "w/my_utils.py": OTHER, "elsewhere.py": OTHER, "w/deep/far.py": OTHER}
        assert collect(put(tmp_path, files), ONE).helpers == {"my_utils.py": OTHER}

    @pytest.mark.parametrize("name", ["my-utils.py", "2.py", "class.py", "utils.txt", "conftest.py", "Attention.py"])
    def test_what_cannot_be_imported_or_must_not(self, tmp_path: Path, name: str) -> None:
        assert collect(put(tmp_path, {"attention.py": GOOD, name: OTHER}), ONE).helpers == {}

    @pytest.mark.parametrize("name", ["torch.py", "random.py", "numpy.py", "unittest.py"])
    def test_what_would_stand_in_for_a_library(self, tmp_path: Path, name: str) -> None:
        found = collect(put(tmp_path, {"attention.py": GOOD, name: OTHER}), ONE)
        assert found.helpers == {}
        assert f"Left out, because a Python module has the same name: {name}" in said(found)

    def test_number_and_size_are_capped(self, tmp_path: Path) -> None:
        put(tmp_path, {"attention.py": GOOD, "huge.py": b"#" * 300_000} | {f"h{n:02}.py": OTHER for n in range(30)})
        found = collect(tmp_path, ONE)
        assert list(found.helpers) == [f"h{n:02}.py" for n in range(20)]
        assert "more than 20 files lie beside yours" in said(found)
        assert "huge.py" not in found.helpers

    def test_twins_in_unicode(self, tmp_path: Path) -> None:
        put(tmp_path, {"attention.py": GOOD, "h\u00e9.py": GOOD, "he\u0301.py": OTHER})
        found = collect(tmp_path, ONE)
        assert list(found.helpers) == ["h\u00e9.py"]
        assert "look the same" in said(found)
        archive = zip_of(tmp_path, [("attention.py", GOOD), ("h\u00e9.py", GOOD), ("he\u0301.py", OTHER)])
        assert collect(archive, ONE).helpers == {"h\u00e9.py": OTHER}


class TestDigest:
    def test_same_content_same_digest(self, tmp_path: Path) -> None:
        file = put(tmp_path / "a", {"attention.py": GOOD}) / "attention.py"
        folder = put(tmp_path / "b", {"deep/attention.py": GOOD, "README.md": b"x"})
        archive = zip_of(tmp_path, [("x/", b""), ("x/attention.py", GOOD)])
        assert len({collect(path, ONE).digest for path in (file, folder, archive)}) == 1

    def test_helpers_count(self, tmp_path: Path) -> None:
        bare = collect(put(tmp_path / "a", {"attention.py": GOOD}), ONE).digest
        helped = collect(put(tmp_path / "b", {"attention.py": GOOD, "h.py": b""}), ONE).digest
        renamed = collect(put(tmp_path / "c", {"attention.py": GOOD, "g.py": b""}), ONE).digest
        assert len({bare, helped, renamed}) == 3
        assert len(bare) == 64


class TestNothingFound:
    def test_only_a_path_that_does_not_exist_raises(self, tmp_path: Path) -> None:
        for path in [tmp_path / "none.py", tmp_path / "nul\0.py"]:
            with pytest.raises(CollectError, match="does not exist"):
                collect(path, ONE)

    def test_what_was_there_is_listed(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {f"{n}.md": b"x" for n in "abcde"}), ONE)
        assert found.missing == ONE
        assert "It holds a.md, b.md, c.md and 2 more" in said(found)

    def test_empty_folder_and_empty_zip(self, tmp_path: Path) -> None:
        for path in [tmp_path, zip_of(tmp_path / "..", [], f"{tmp_path.name}.zip")]:
            found = collect(path, ONE)
            assert (found.files, found.missing) == ({}, ONE)
            assert "no file that can be read" in said(found)

    def test_an_empty_file_is_there_and_said(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"attention.py": b""}), ONE)
        assert found.files == {"attention.py": b""}
        assert "attention.py is empty" in said(found)

    @pytest.mark.parametrize("data", [b"%PDF-1.7 ...", b"\x89PNG\r\n\x1a\n", b"\x1f\x8b\x08\0", bytes(range(256)) * 9])
    def test_a_single_file_that_is_no_source(self, tmp_path: Path, data: bytes) -> None:
        assert collect(put(tmp_path, {"hand-in": data}) / "hand-in", ONE).missing == ONE

    def test_a_folder_with_the_name_of_the_file(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"attention.py/readme.md": b"x"}), ONE)
        assert found.missing == ONE
        assert "a folder, not a file: attention.py" in said(found)
        assert "a folder, not a file: attention.py" in said(collect(zip_of(tmp_path, [("attention.py/", b"")]), ONE))
