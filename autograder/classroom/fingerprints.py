"""Suspiciously equal code: fingerprints of token sequences, without what the starter brought and what everybody writes.

Winnowing (Schleimer, Wilkerson, Aiken: "Winnowing: Local Algorithms for Document Fingerprinting", SIGMOD 2003, section 3):
of the hashes of all K-grams, the smallest of each window of W is kept, so that any common run of K + W - 1 tokens is found.
Names that a student chooses count as one, so renaming hides nothing; names that torch chose (after a dot) count as they are.
A report only: equal code has many reasons.

Why not a library: the kept ones (copydetect for Python) compare files on disk pair by pair, four million pairs for 3,000
hand-ins. Here an index from fingerprint to hand-in leaves only pairs that share something rare.
"""

from __future__ import annotations

import hashlib
import io
import keyword
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from autograder import bundle
from autograder.lab import Lab
from autograder.solutions import is_string

K, W = 12, 6  # a common run of 17 tokens, about two lines, is always found
RARE = 0.1  # a fingerprint that more than this share of the class has tells nothing
RARE_AT_LEAST = 4  # hand-ins, in a small class
SIMILAR = 0.6
SHARED_AT_LEAST = 8
STATEMENT_ENDS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
SKIPPED = STATEMENT_ENDS | {tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER}


@dataclass(frozen=True)
class Group:
    """Hand-ins of which each is similar to some other: labels, and the share of rare code of the nearest pair."""

    labels: tuple[str, ...]
    similarity: float
    shared: int


class Prints:
    """The fingerprints of a class."""

    def __init__(self, starter: str = "") -> None:
        self.known = set(_grams(starter))
        self.of: dict[str, frozenset[int]] = {}

    @classmethod
    def of_lab(cls, lab: Lab) -> Prints:
        """For hand-ins of a lab, whose starter is taken away."""
        return cls(bundle.starter_files(lab)[lab.file.main].decode())

    def add(self, label: str, text: str) -> None:
        """Remember the main file of a hand-in."""
        self.of[label] = frozenset(fingerprints(text, self.known))

    def groups(self) -> list[Group]:
        """Hand-ins that share most of what few others have, nearest first."""
        common = max(RARE_AT_LEAST, RARE * len(self.of))
        holders: dict[int, list[str]] = defaultdict(list)
        for label, prints in self.of.items():
            for found in prints:
                holders[found].append(label)
        rare = {found: labels for found, labels in holders.items() if len(labels) <= common}
        sizes = Counter(label for labels in rare.values() for label in labels)
        shared = Counter(pair for labels in rare.values() for pair in combinations(labels, 2))
        near = {
            (one, other): count / min(sizes[one], sizes[other])
            for (one, other), count in shared.items()
            if count >= SHARED_AT_LEAST and count / min(sizes[one], sizes[other]) >= SIMILAR
        }
        groups = []
        for labels in _connected(near):
            inside = [pair for pair in near if pair[0] in labels]
            best = max(inside, key=lambda pair: (near[pair], shared[pair]))
            groups.append(Group(tuple(sorted(labels)), near[best], shared[best]))
        return sorted(groups, key=lambda group: (-group.similarity, -group.shared, group.labels))


def fingerprints(text: str, known: set[int]) -> set[int]:
    """The winnowed hashes of a source's K-grams, those that are known left out."""
    grams = list(_grams(text))
    kept = {min(grams[at : at + W]) for at in range(max(1, len(grams) - W + 1))} if grams else set()
    return kept - known


def _grams(text: str) -> Iterator[int]:
    tokens = list(_tokens(text))
    for at in range(len(tokens) - K + 1):
        gram = "\0".join(tokens[at : at + K]).encode("utf-8", "backslashreplace")
        yield int.from_bytes(hashlib.blake2b(gram, digest_size=8).digest(), "big")


def _tokens(text: str) -> Iterator[str]:
    """Tokens as they count: without comments, layout and texts that stand alone (docstrings)."""
    last, begins = "", True
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in SKIPPED:
                begins = begins or token.type in STATEMENT_ENDS
                continue
            if token.type == tokenize.STRING and begins:
                continue
            begins = False
            if token.type == tokenize.NAME and not keyword.iskeyword(token.string) and last != ".":
                yield "name"
            elif is_string(token):
                yield "text"
            else:
                yield token.string
            last = token.string
    except (tokenize.TokenError, SyntaxError, ValueError):  # what stands before the broken place counts
        return


def _connected(near: dict[tuple[str, str], float]) -> list[set[str]]:
    parent: dict[str, str] = {}

    def root(label: str) -> str:
        while parent.setdefault(label, label) != label:
            label = parent[label]
        return label

    for one, other in near:
        parent[root(one)] = root(other)
    groups: dict[str, set[str]] = defaultdict(set)
    for label in list(parent):
        groups[root(label)].add(label)
    return list(groups.values())
