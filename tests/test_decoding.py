"""Bytes of every kind become text, or are said to be none."""

from __future__ import annotations

import codecs

import pytest
from fuzzing import examples
from hypothesis import given
from hypothesis import strategies as st

from autograder.source import Source, decode


class TestDecode:
    @pytest.mark.parametrize(
        ("data", "text", "told"),
        [
            ("x = 'é'\n".encode(), "x = 'é'\n", ""),
            (codecs.BOM_UTF8 + "x = 'é'\n".encode(), "x = 'é'\n", ""),
            (codecs.BOM_UTF16_LE + "x = 'é'\n".encode("utf-16-le"), "x = 'é'\n", "UTF-16"),
            (codecs.BOM_UTF16_BE + "x = 'é'\n".encode("utf-16-be"), "x = 'é'\n", "UTF-16"),
            (codecs.BOM_UTF32_LE + "x = 'é'\n".encode("utf-32-le"), "x = 'é'\n", "UTF-32"),
            ("x = 'plain'\n".encode("utf-16-le"), "x = 'plain'\n", "UTF-16"),
            ("# coding: latin-1\nx = 'é'\n".encode("latin-1"), "# coding: latin-1\nx = 'é'\n", ""),
            (
                "#!python\n# -*- coding: gbk -*-\nx = '权重'\n".encode("gbk"),
                "#!python\n# -*- coding: gbk -*-\nx = '权重'\n",
                "",
            ),
            ("y = 1\n# é\n".encode("latin-1"), "y = 1\n# é\n", "attention.py:2 is not UTF-8: read as Latin-1"),
            ("# coding: ascii\nx = 'é'\n".encode(), "# coding: ascii\nx = 'é'\n", ""),
            ("# coding: klingon\nx = 'é'\n".encode(), "# coding: klingon\nx = 'é'\n", "'klingon', which is unknown"),
            (b"# coding: rot13\nx = 1\n", "# coding: rot13\nx = 1\n", "'rot13', which is unknown"),
            (b"# coding: idna\nx = 1\n", "# coding: idna\nx = 1\n", "'idna', which is unknown"),
            (b"a = 1\r\nb = 2\r\n", "a = 1\nb = 2\n", ""),
            (b"a = 1\rb = 2\r", "a = 1\nb = 2\n", ""),
            (b"a = 1\n\0b = 2\n", "a = 1\nb = 2\n", "attention.py:2 has NUL bytes"),
            (b"a = 1\n\x0cb = 2\n", "a = 1\n\x0cb = 2\n", ""),
            (b"", "", ""),
            (codecs.BOM_UTF8, "", ""),
            (codecs.BOM_UTF8 + b"x = 1 # \xff\n", "x = 1 # \ufffd\n", "no UTF-8"),
            (codecs.BOM_UTF16_LE + b"x\0=\0\x31", "x=\ufffd", "no UTF-16"),
            (b"%PDF-1.7\n", "", "a PDF, not Python source"),
            (bytes(range(32)) * 4, "", "a binary file"),
        ],
    )
    def test_bytes(self, data: bytes, text: str, told: str) -> None:
        got, notes = decode(data, "attention.py")
        assert got == text
        assert told in " ".join(note.text for note in notes)
        assert bool(told) == bool(notes)

    @examples(500)
    @given(
        st.binary(max_size=300),
        st.sampled_from([b"", b"# coding: utf-7\n", b"# coding: cp932\n", b"\xff\xfe", b"\xef\xbb\xbf"]),
    )
    def test_any_bytes(self, data: bytes, start: bytes) -> None:
        source = Source.read(start + data, "attention.py")
        source.text.encode()
        assert "\0" not in source.text
        assert "\r" not in source.text
        compile(source.text, "attention.py", "exec")
