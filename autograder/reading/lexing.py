"""Just enough of Python's lexical rules to tell whether a line of a broken source begins in a string or a bracket."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""\#[^\n]*
    |(?P<triple>\"{3}|'{3})
    |"(?:\\.|[^"\\\n])*"? |'(?:\\.|[^'\\\n])*'?  # ends with its line at the latest
    |(?P<open>[(\[{]) |(?P<close>[)\]}])""",
    re.VERBOSE | re.DOTALL,
)
_END = {
    '"""': re.compile(r'(?:[^\\"]|\\.|"(?!""))*"""', re.DOTALL),
    "'''": re.compile(r"(?:[^\\']|\\.|'(?!''))*'''", re.DOTALL),
}


class Lexer:
    """Is fed whole lines, in order; knows then whether the statement so far is still open."""

    def __init__(self) -> None:
        self.quote: str | None = None
        self.depth = 0
        self.continued = False

    @property
    def open(self) -> bool:
        """The next line goes on with this statement: an open string, an open bracket, or a backslash at the end."""
        return self.quote is not None or self.depth > 0 or self.continued

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            if self.quote:
                end = _END[self.quote].match(text, at)
                if not end:
                    return
                at, self.quote = end.end(), None
                continue
            token = _TOKEN.search(text, at)
            if not token:
                break
            at = token.end()
            if token.lastgroup == "triple":
                self.quote = token.group()
            elif token.lastgroup == "open":
                self.depth += 1
            elif token.lastgroup == "close":
                self.depth = max(0, self.depth - 1)
        self.continued = self.quote is None and text.rstrip("\n").endswith("\\")
