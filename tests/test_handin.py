"""Folders and zips that are made to do harm, or were damaged on the way."""

from __future__ import annotations

import os
import stat
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from fuzzing import examples
from handins import GOOD, ONE, OTHER, TWO, put, said, zip_of, zipped
from hypothesis import given
from hypothesis import strategies as st

from autograder.reading.handin import Refused, file_entry
from autograder.submission import CollectLimits, collect


class TestHostileFolders:
    def test_a_file_that_goes_away(self, tmp_path: Path) -> None:
        with pytest.raises(Refused, match="system does not allow"):
            file_entry(str(tmp_path / "gone.py"), "gone.py").read(100)

    def test_a_link_out_of_the_hand_in(self, tmp_path: Path) -> None:
        put(tmp_path, {"secret.py": OTHER, "hand/readme.md": b""})
        (tmp_path / "hand/attention.py").symlink_to(tmp_path / "secret.py")
        (tmp_path / "hand/folder").symlink_to(tmp_path)
        found = collect(tmp_path / "hand", ONE)
        assert (found.files, found.missing) == ({}, ONE)
        assert "it is a link: attention.py and folder" in said(found)

    def test_links_in_a_circle_and_to_nowhere(self, tmp_path: Path) -> None:
        put(tmp_path, {"attention.py": GOOD})
        (tmp_path / "round").symlink_to(tmp_path)
        (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere")
        assert collect(tmp_path, ONE).files == {"attention.py": GOOD}

    def test_a_pipe_does_not_block(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "attention.py")
        for path in [tmp_path, tmp_path / "attention.py"]:
            found = collect(path, ONE)
            assert found.missing == ONE
            assert "not an ordinary file: attention.py" in said(found)

    def test_a_device(self) -> None:
        assert collect(Path("/dev/zero"), ONE).missing == ONE

    def test_a_hundred_thousand_files(self, tmp_path: Path) -> None:
        for number in range(100_000):
            os.close(os.open(tmp_path / f"{number}.txt", os.O_CREAT | os.O_WRONLY))
        put(tmp_path, {"attention.py": GOOD, "a/attention.py": OTHER})
        found = collect(tmp_path, ONE)
        assert found.files == {"attention.py": GOOD}
        assert "more than 20000 files" in said(found)
        assert len(found.notes) == 1

    def test_the_limit_counts_over_all_folders(self, tmp_path: Path) -> None:
        put(tmp_path, {f"{folder}/{number}.txt": b"" for folder in "abcd" for number in range(10)})
        put(tmp_path, {"d/attention.py": GOOD})
        assert collect(tmp_path, ONE, limits=CollectLimits(entries=30)).missing == ONE
        assert collect(tmp_path, ONE, limits=CollectLimits(entries=50)).files == {"attention.py": GOOD}

    def test_folders_without_end(self, tmp_path: Path) -> None:
        put(tmp_path, {"x/" * 40 + "attention.py": GOOD})
        found = collect(tmp_path, ONE)
        assert found.missing == ONE
        assert "lies too deep" in said(found)

    def test_names_that_are_no_text(self, tmp_path: Path) -> None:
        with open(os.fsencode(tmp_path) + b"/\xff\xfe\x1b[31m.md", "wb") as file:
            file.write(b"x")
        found = collect(tmp_path, ONE)
        assert "??" in said(found)
        said(found).encode()
        assert "\x1b" not in said(found)


def locked() -> bytes:
    """A zip whose entry says that it is encrypted, in both of its headers."""
    data = bytearray(zipped([("attention.py", GOOD)]))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def mode(name: str, bits: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    info.external_attr = bits << 16
    return info


class TestHostileZips:
    @pytest.mark.parametrize(
        "name", ["../attention.py", "a/../../attention.py", "/attention.py", "C:\\attention.py", "..\\attention.py"]
    )
    def test_paths_that_lead_out(self, tmp_path: Path, name: str) -> None:
        found = collect(zip_of(tmp_path, [(name, OTHER)]), ONE)
        assert found.missing == ONE
        assert "leads out of the zip" in said(found)
        assert collect(zip_of(tmp_path, [(name, OTHER), ("attention.py", GOOD)]), ONE).files == {"attention.py": GOOD}

    def test_links_and_devices(self, tmp_path: Path) -> None:
        entries = [(mode("attention.py", stat.S_IFLNK | 0o777), b"/etc/passwd"), (mode("pipe.py", stat.S_IFIFO), b"")]
        found = collect(zip_of(tmp_path, entries), ONE)
        assert (found.files, found.helpers) == ({}, {})
        assert "it is a link: attention.py" in said(found)
        assert "not an ordinary file: pipe.py" in said(found)

    def test_a_password(self, tmp_path: Path) -> None:
        (tmp_path / "a.zip").write_bytes(locked())
        assert "protected by a password: attention.py" in said(collect(tmp_path / "a.zip", ONE))

    def test_a_bomb(self, tmp_path: Path) -> None:
        archive = zip_of(tmp_path, [("attention.py", bytes(900_000)), ("attention.ipynb", bytes(300_000_000))])
        tracemalloc.start()
        found = collect(archive, ONE)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found.missing == ONE
        assert "compressed beyond reason: attention.py and attention.ipynb" in said(found)
        assert peak < 20_000_000

    def test_a_size_that_is_a_lie(self, tmp_path: Path) -> None:
        data = bytearray(zipped([("attention.py", bytes(50_000_000))]))
        for at in (22, data.index(b"PK\x01\x02") + 24):
            data[at : at + 4] = (1000).to_bytes(4, "little")
        (tmp_path / "a.zip").write_bytes(data)
        tracemalloc.start()
        found = collect(tmp_path / "a.zip", ONE)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found.missing == ONE
        assert "damaged: attention.py" in said(found)
        assert peak < 10_000_000

    def test_many_entries(self, tmp_path: Path) -> None:
        found = collect(zip_of(tmp_path, [("attention.py", GOOD)] + [(f"{n}", b"") for n in range(30_000)]), ONE)
        assert "more than 20000 files" in said(found)

    def test_total_size(self, tmp_path: Path) -> None:
        put(tmp_path, {"multihead.py": b"#" * 600, "attention.py": b"#" * 600})
        found = collect(tmp_path, TWO, limits=CollectLimits(total_bytes=1000))
        assert found.missing == ("attention.py",)

    def test_the_archive_itself_too_large(self, tmp_path: Path) -> None:
        found = collect(zip_of(tmp_path, [("attention.py", GOOD)]), ONE, limits=CollectLimits(archive_bytes=50))
        assert "larger than is accepted: hand-in.zip" in said(found)

    def test_duplicates(self, tmp_path: Path) -> None:
        found = collect(zip_of(tmp_path, [("attention.py", OTHER), ("attention.py", GOOD)]), ONE)
        assert found.files == {"attention.py": GOOD}
        assert "More than once in the zip, the last one was taken: attention.py" in said(found)

    def test_unusual_compression(self, tmp_path: Path) -> None:
        (tmp_path / "a.zip").write_bytes(zipped([("attention.py", GOOD)], zipfile.ZIP_LZMA))
        assert "unusual compression: attention.py" in said(collect(tmp_path / "a.zip", ONE))

    def test_a_name_that_ends_early(self, tmp_path: Path) -> None:
        data = zipped([("attention.py_.exe", OTHER)]).replace(b"attention.py_", b"attention.py\0")
        (tmp_path / "a.zip").write_bytes(data)
        assert collect(tmp_path / "a.zip", ONE).missing == ONE

    def test_damaged(self, tmp_path: Path) -> None:
        whole = zipped([("attention.py", GOOD * 100)])
        for cut in (3, 30, len(whole) // 2, len(whole) - 5):
            (tmp_path / "a.zip").write_bytes(whole[:cut])
            found = collect(tmp_path / "a.zip", ONE)
            assert found.missing == ONE
            assert "damaged: a.zip" in said(found)
        flipped = bytearray(whole)
        flipped[60] ^= 0xFF
        (tmp_path / "a.zip").write_bytes(flipped)
        assert "damaged: attention.py" in said(collect(tmp_path / "a.zip", ONE))

    def test_text_with_the_name_of_a_zip(self, tmp_path: Path) -> None:
        found = collect(put(tmp_path, {"a.zip": GOOD}) / "a.zip", ONE)
        assert "damaged: a.zip" in said(found)

    @examples(300)
    @given(st.binary(max_size=400))
    def test_random_bytes_never_raise(self, tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
        path = tmp_path_factory.getbasetemp() / "random.zip"
        for start in (b"", b"PK\x03\x04"):
            path.write_bytes(start + data)
            found = collect(path, ONE)
            assert set(found.files) | set(found.missing) == set(ONE)

    @examples(500)
    @given(st.data())
    def test_random_edits_of_a_zip_never_raise(
        self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        whole = bytearray(zipped([("w/", b""), ("w/attention.py", GOOD), ("w/h\u00e9.py", OTHER)]))
        for _ in range(data.draw(st.integers(1, 6))):
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
        path = tmp_path_factory.getbasetemp() / "edited.zip"
        path.write_bytes(whole)
        found = collect(path, ONE)
        said(found).encode()
        assert set(found.files) | set(found.missing) == set(ONE)
