"""A notebook in place of a `.py`: its definitions are taken out, its story is not run again."""

from __future__ import annotations

import ast
import re
import symtable
import sys
import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

from autograder.language import N_, say
from autograder.reading.cells import code_cells, load, raw_cells
from autograder.reading.lexing import Lexer
from autograder.reading.notes import Note, listed, shown
from autograder.reading.pieces import examine
from autograder.reading.repair import BrokenDefinition, repair
from autograder.reading.statements import DEFINITIONS, only, only_defines, stored_in

# Cell magics below which stands Python that belongs to the notebook.
PYTHON_MAGICS = frozenset(
    ["time", "timeit", "capture", "prun", "python", "python3", "py", "snakeviz", "memit", "mprun", "debug"]
)
MAGIC = re.compile(r"\s*(?:%|!|\?|[\w.]+\?{1,2}\s*$|[\w, ]+=\s*[%!])")
# What a story may do, and a module may not.
NO_FAULT_HERE = re.compile(r"'?(await|async|return|yield)\b.* outside")
# Modules that a graded guest surely has; any other import must not cost what comes after it.
SAFE_MODULES = sys.stdlib_module_names | {"torch", "numpy"}
LIBRARIES = frozenset({"torch", "nn", "F", "math", "np", "numpy"})
CONSTANT_CALLS = frozenset({"float", "int", "str", "dict", "list", "tuple", "set", "frozenset"})
CONSTANT_CALLS |= {"math.sqrt", "math.log", "math.exp", "torch.device", "torch.tensor", "torch.finfo", "np.sqrt"}
MOST_CODE = 400_000  # characters in all cells; see CollectLimits

Place = tuple[int, int]


@dataclass(frozen=True)
class NotebookSource:
    """The definitions of a notebook as one text, and for each line of it the cell and the line in the cell, from 1."""

    name: str
    text: str
    original: str
    lines: tuple[Place, ...]
    notes: tuple[Note, ...] = ()
    broken: tuple[BrokenDefinition, ...] = ()

    @property
    def places(self) -> tuple[str, ...]:
        """Each line as feedback names it: `worksheet.ipynb cell 7 line 3`."""
        return tuple(_place(self.name, *at) for at in self.lines)


def is_notebook(data: bytes) -> bool:
    """Whether the bytes are a notebook, whatever the file is called."""
    loaded = load(data)
    return loaded is not None and bool(raw_cells(loaded))


def definitions_from_notebook(data: bytes, name: str, own: str | None = None) -> NotebookSource:
    """What a notebook defines: imports, `def`, `class` and simple assignments such as ANSWERS. Never raises.

    `own` is the lab's module that the notebook stands in for; importing it inside of the notebook is left out.
    """
    loaded = load(data)
    if loaded is None:
        text = say(
            "{file} cannot be read as a notebook: open it in Jupyter and save it again, or hand in the .py file.",
            file=shown(name),
        )
        return NotebookSource(name, "", "", (), (Note("warning", text),))
    notes = _language(loaded, name)
    book = _Book(name, own or name.rpartition(".")[0])
    left = MOST_CODE
    for number, code in code_cells(loaded):
        left -= len(code)
        if left < 0:
            text = say(
                "{file} has too much code: it was read up to cell {number}.", file=shown(name), number=number - 1
            )
            notes.append(Note("warning", text))
            break
        book.add(number, code)
    return book.finish(notes)


def _language(loaded: dict[str, Any], name: str) -> list[Note]:
    metadata = loaded.get("metadata")
    kernel = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    language = kernel.get("language") if isinstance(kernel, dict) else None
    if isinstance(language, str) and language.lower() != "python":
        text = say("{file} is written for {language}, not for Python.", file=shown(name), language=shown(language))
        return [Note("warning", text)]
    return []


class _Book:
    """Gathers the definitions, cell by cell; what is left out leaves an empty line."""

    def __init__(self, name: str, own: str) -> None:
        self.name = name
        self.own = own
        self.head: list[tuple[str, str, Place]] = []  # imports that go first: text, as written, place
        self.text: list[str] = []
        self.original: list[str] = []
        self.lines: list[Place] = []
        self.broken: list[BrokenDefinition] = []
        self.notes: list[Note] = []
        self.defined: dict[str, list[int]] = {}  # definition → the cells that have one
        self.simple: set[str] = set()  # assigned names whose value needs nothing of the story
        self.told: dict[str, int] = {}  # names that the story sets → the last cell that does

    def add(self, number: int, code: str) -> None:
        """Take what one cell defines."""
        text = _without_magics(self._without_cell_magic(code))
        tree = _parsed(text)
        if tree is None:
            text, broken = repair(text, lambda line: _place(self.name, number, line))
            tree = _parsed(text)
            for item in broken:
                if not NO_FAULT_HERE.match(item.message):
                    self._lost(number, item)
        statements = [(node, self._takes(number, node, text)) for node in tree.body] if tree else []
        self.text += only(text, statements).split("\n")
        self.original += code.split("\n")
        self.lines += [(number, line) for line in range(1, code.count("\n") + 2)]

    def _say(self, severity: Literal["info", "warning"], text: str, **values: object) -> None:
        self.notes.append(Note(severity, say(text, **values)))

    def _lost(self, number: int, item: BrokenDefinition) -> None:
        lost = N_("{place}: SyntaxError: {error}; `{name}` cannot be graded, the rest of the cell is.")
        left_out = N_("{place}: SyntaxError: {error}; this statement was left out, the rest of the cell is.")
        known = {"place": _place(self.name, number, item.line), "error": say(item.message), "name": item.name}
        self._say("warning", lost if item.name else left_out, **known)
        start = len(self.text)
        self.broken.append(replace(item, first=start + item.first, last=start + item.last, line=start + item.line))

    def _without_cell_magic(self, code: str) -> str:
        found = re.match(r"\s*%%(\w*)[ \t]*([^\n]*)", code)
        if not found:
            return code
        kept = found.group(1) in PYTHON_MAGICS
        if found.group(1) in ("writefile", "file"):
            kept = re.split(r"[/\\]", found.group(2).strip())[-1] == f"{self.own}.py"
        lines = code.count("\n", 0, found.end())
        return "\n" * lines + code[found.end() :] if kept else "\n" * code.count("\n")

    def _takes(self, number: int, node: ast.stmt, text: str) -> bool:
        """Whether a statement stays where it is."""
        if isinstance(node, DEFINITIONS):
            self.defined.setdefault(node.name, []).append(number)
            return True
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            return self._import(number, node, text)
        known = self.simple | set(self.defined)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_simple_assignment(node, known):
            self.simple |= stored_in(node)
            return True
        if isinstance(node, (ast.If, ast.Try)) and only_defines(node, set(self.defined), set(self.told)):
            imported = [inner for inner in ast.walk(node) if isinstance(inner, (ast.Import, ast.ImportFrom))]
            if imported and all(self.own not in _modules(inner) for inner in imported):
                self.simple |= stored_in(node)
                return True
        self.told |= dict.fromkeys(stored_in(node), number)
        return False

    def _import(self, number: int, node: ast.Import | ast.ImportFrom, text: str) -> bool:
        modules = _modules(node)
        future = "__future__" in modules
        if modules <= SAFE_MODULES and not future:
            return True
        if self.own not in modules:
            written = text.split("\n")[node.lineno - 1]
            code = ast.unparse(node)
            # A library for plots that the grader lacks costs what uses it, not what comes after it.
            for line in [code] if future else ["try:", f"    {code}", "except ImportError:", "    pass"]:
                self.head.append((line, written, (number, node.lineno)))
        return False

    def finish(self, notes: list[Note]) -> NotebookSource:
        """The whole."""
        self.head.sort(key=lambda line: "__future__" not in line[0])  # which Python wants first of all
        text, broken = repair("\n".join([*(line for line, _, _ in self.head), *self.text]))
        file = shown(self.name)
        for name, numbers in self.defined.items():
            if len(numbers) > 1:
                where = listed([str(number) for number in numbers], most=6)
                said = N_("{file} defines `{name}` in cells {cells}: the last one is graded.")
                self._say("info", said, file=file, name=name, cells=where)
        for name in sorted(_globals(text) & set(self.told) - self.simple - set(self.defined)):
            said = N_(
                "A definition uses `{name}`, which {file} cell {cell} computes and the grader does not: "
                "pass it in, or set it to a constant."
            )
            self._say("warning", said, name=name, file=file, cell=self.told[name])
        if not self.defined and not self.simple:
            self._say("warning", N_("No definitions were found in {file}."), file=file)
        shift = len(self.head)
        moved = [
            replace(item, first=item.first + shift, last=item.last + shift, line=item.line + shift)
            for item in self.broken
        ]
        return NotebookSource(
            name=self.name,
            text=text,
            original="\n".join([*(line for _, line, _ in self.head), *self.original]),
            lines=(*(place for _, _, place in self.head), *self.lines),
            notes=(*notes, *self.notes),
            broken=(*moved, *broken),
        )


def _place(name: str, cell: int, line: int) -> str:
    return say("{file} cell {cell} line {line}", file=shown(name), cell=cell, line=line)


def _parsed(text: str) -> ast.Module | None:
    """The tree of a cell: `await` at the top is no error in a notebook."""
    found = examine(text)
    if isinstance(found, ast.Module):
        return found
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            return ast.parse(text)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return None


def _without_magics(code: str) -> str:
    """The cell as Python: lines for the notebook or the shell become `pass`. A cell that is Python stays as it is."""
    if _parsed(code):
        return code
    lines = code.split("\n")
    lexer = Lexer()
    shell = False
    for index, line in enumerate(lines):
        if shell or (not lexer.open and MAGIC.match(line)):
            lines[index] = "" if shell else line[: len(line) - len(line.lstrip())] + "pass"
            shell = line.rstrip().endswith("\\")  # a shell command may go on over several lines
        else:
            lexer.feed(line + "\n")
    return "\n".join(lines)


def _modules(node: ast.Import | ast.ImportFrom) -> set[str]:
    names = [item.name for item in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return {name.partition(".")[0] for name in names}


def _is_simple_assignment(node: ast.Assign | ast.AnnAssign, known: set[str]) -> bool:
    """`NAME = value`, or `ANSWERS["question"] = value` of a table that is known."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        holder = target.value if isinstance(target, ast.Subscript) else target
        if not isinstance(holder, (ast.Name, ast.Tuple)):
            return False
        if isinstance(target, ast.Subscript) and not (isinstance(holder, ast.Name) and holder.id in known):
            return False
    return node.value is not None and _is_simple(node.value, known)


def _is_simple(node: ast.expr, known: set[str]) -> bool:
    """A value that needs nothing of the story: constants and what is built of them, functions, lambdas."""
    if isinstance(node, (ast.Constant, ast.Lambda)):
        return True
    if isinstance(node, ast.Name):
        return node.id in known
    if isinstance(node, ast.Attribute):
        return ast.unparse(node).partition(".")[0] in LIBRARIES
    if isinstance(node, ast.Call):
        given = [*node.args, *(item.value for item in node.keywords)]
        return ast.unparse(node.func) in CONSTANT_CALLS and all(_is_simple(value, known) for value in given)
    if isinstance(node, (ast.Dict, ast.List, ast.Tuple, ast.Set, ast.UnaryOp, ast.BinOp)):
        return all(_is_simple(part, known) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
    return False


def _globals(text: str) -> set[str]:
    """The names that the definitions of a module look up in the module."""
    found: set[str] = set()
    try:
        tables = symtable.symtable(text, "<notebook>", "exec").get_children()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    while tables:
        table = tables.pop()
        tables += table.get_children()
        found |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()}
    return found
