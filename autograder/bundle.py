"""What leaves the instructor's folder: the starter, the student's zip and the autograder's zip. Bytes are reproducible."""

from __future__ import annotations

import ast
import io
import json
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from autograder import course, language, worksheet
from autograder import lab as labs
from autograder import questions as concept
from autograder.check import AuthoringError
from autograder.lab import Lab
from autograder.result import points
from autograder.strip import strip
from autograder.visible import visible_source

PACKAGE = Path(__file__).resolve().parent
# The zip format's own beginning of time: no file time tells anything, and equal contents give equal bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)
QUESTIONS_MARK = "<!-- questions -->"
# What `feedback.cell` is rendered from.
CELL_TEMPLATES = ("cell.html", "explained.html", "panels.html", "tables.css")
# What grading needs beside torch, in a student's copy as in the image; requirements.txt has the versions.
GRADING = ("numpy", "msgpack", "rich", "pydantic", "gradescope-utils", "nbformat", "tomli")
Files = dict[str, bytes]


def write_starter(name: str, root: Path) -> list[Path]:
    """Write starter_code/LAB from the reference and the handout; returns the files."""
    written = []
    for file_name, data in starter_files(labs.load(name, root)).items():
        path = root / "starter_code" / name / file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        written.append(path)
    return written


def starter_files(lab: Lab) -> Files:
    """The files that a student starts from: the stripped main file and the handout with its questions."""
    origin = f"reference/{lab.name}/{lab.file.main}"
    text = course.read_text(lab.root / origin)
    starter = strip(text, name=lab.file.main, origin=origin)
    return {lab.file.main: starter.text.encode()} | {name: text.encode() for name, text in handouts(lab).items()}


def handouts(lab: Lab) -> dict[str, str]:
    """The handout by the name of its file, in each language that the lab has it in."""
    names = {lang: labs.handout_name(lang) for lang in language.known()}
    there = [lang for lang, name in names.items() if lang == language.ENGLISH or (lab.folder / name).exists()]
    return {names[lang]: handout(lab, lang) for lang in there}


def handout(lab: Lab, lang: str = language.ENGLISH) -> str:
    """The handout with the questions in their place. Raises AuthoringError where it has none."""
    path = lab.folder / labs.handout_name(lang)
    text = course.read_text(path)
    if text.count(QUESTIONS_MARK) != (1 if lab.questions else 0):
        raise AuthoringError(f"{path}: the line {QUESTIONS_MARK} must stand there once, where the questions go")
    with language.speaking(lang, lab.folder):
        return text.replace(QUESTIONS_MARK, concept.as_markdown(lab.questions))


def write_zips(name: str, root: Path, out: Path) -> list[Path]:
    """Write both zips of a lab to OUT/LAB; returns their paths."""
    lab = labs.load(name, root)
    zips = {f"{name}-student.zip": student_files(lab), f"{name}-autograder.zip": autograder_files(lab)}
    written = []
    for file_name, files in zips.items():
        path = out / name / file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zipped(files))
        written.append(path)
    return written


def student_files(lab: Lab) -> Files:
    """The student's zip: starter, handout, check.py, and below `_check/` what it needs. No solution, no hidden check."""
    from autograder import recording  # not above: a starter is made without a guest

    files = starter_files(lab)
    for name in ("check.py", "conftest.py"):
        files[name] = (PACKAGE / "local" / name).read_bytes()
    files["requirements.txt"] = _requirements(lab.root, ("torch", *GRADING))
    if written := worksheet.source(lab.name, lab.root):
        files |= worksheet_files(written, lab.root)
    local = labs.local_part(lab)
    folder = f"_check/assignments/{lab.name}"
    visible = visible_lab(local)
    files |= {f"{folder}/{file_name}": data for file_name, data in visible.items()}
    checks = ast.parse(visible["checks.py"])
    processes = ["autograder.sandbox.zygote", "autograder.sandbox.spawned"]  # started by name, imported by nothing
    doors = ["autograder.local.main", "autograder.local.pytest_plugin", "autograder.local.worksheet"]
    for path in imported_files([*doors, *processes, *imported_modules(checks)]):
        files[f"_check/{path}"] = (PACKAGE.parent / path).read_bytes()
    for required, _ in labs.prerequisites(lab.file, lab.root):
        other = labs.local_part(labs.load(required, lab.root))
        files[f"_check/assignments/{required}/lab.toml"] = _lab_toml(other)
    # A mistake that only a hidden check catches would tell by its sentence what is hidden; and where the course tells
    # causes late or never, a copy that counts no attempts tells none.
    names = {check.name for check in local.checks} if course.settings(lab.root).feedback == "cause" else set()
    mistakes = tuple(item for item in lab.mistakes if item.caught_by in names)
    files["_check/recording.bin"] = recording.record(local, mistakes)
    return files | translations(replace(local, mistakes=mistakes, questions={}), visible["checks.py"].decode())


def translations(local: Lab, checks: str) -> Files:
    """What a student's copy needs to speak other languages: the framework's catalogues, and of the lab's what is handed out."""
    files: Files = {}
    spoken = course.settings(local.root).language
    if spoken != language.ENGLISH:
        files["_check/course.toml"] = f"language = {json.dumps(spoken)}\n".encode()
    for lang in language.known()[1:]:
        framework, *own = language.files(lang, local.folder)
        files[f"_check/{framework.relative_to(PACKAGE.parent).as_posix()}"] = framework.read_bytes()
        for path in own:
            kept = handed_out_texts(local, checks)
            files[f"_check/assignments/{local.name}/locale/{path.name}"] = language.excerpt(path, kept)
    return files


def handed_out_texts(local: Lab, checks: str) -> set[str]:
    """Every text of a lab that a student's copy holds in English: what a catalogue may hold there in another language."""
    written = {node.value for node in ast.walk(ast.parse(checks)) if isinstance(node, ast.Constant)}
    texts = {text for text in written if isinstance(text, str)}
    words = {word for text in texts for word in text.split()}  # such as the names of axes, which stand in one string
    titles = {local.file.title, *(section.title for section in local.file.sections)}
    return texts | words | titles | {check.title for check in local.checks} | {item.says for item in local.mistakes}


def worksheet_files(written: str, root: Path) -> Files:
    """The notebook, its pictures, and what the two need besides: not in requirements.txt, since check.py does without."""
    templates = [PACKAGE / "reports" / "templates" / name for name in CELL_TEMPLATES]
    return {
        worksheet.NAME: worksheet.notebook(written),
        "plots.py": (PACKAGE / "local" / "plots.py").read_bytes(),
        "requirements-worksheet.txt": _requirements(root, ("ipykernel", "matplotlib", "jinja2")),
        **{f"_check/{path.relative_to(PACKAGE.parent).as_posix()}": path.read_bytes() for path in templates},
    }


def visible_lab(local: Lab) -> Files:
    """`lab.toml` and `checks.py` of a lab as a student may read them."""
    path = local.root / "assignments" / local.name / "checks.py"
    visible = visible_source(course.read_text(path), {check.name for check in local.checks}, str(path))
    return {"lab.toml": _lab_toml(local), "checks.py": visible.encode()}


def autograder_files(lab: Lab) -> Files:
    """The zip for Gradescope: setup.sh and run_autograder at its root, the framework, this lab and what it builds on."""
    files: Files = {}
    for path in _sources(PACKAGE):
        files[f"autograder/{path.relative_to(PACKAGE).as_posix()}"] = path.read_bytes()
    for name in (lab.name, *(required for required, _ in labs.prerequisites(lab.file, lab.root))):
        for path in _sources(lab.root / "assignments" / name):
            files[path.relative_to(lab.root).as_posix()] = path.read_bytes()
        main = lab.root / "reference" / name
        for path in sorted(main.glob("*.py")):
            files[path.relative_to(lab.root).as_posix()] = path.read_bytes()
    if (lab.root / "course.toml").exists():
        files["course.toml"] = (lab.root / "course.toml").read_bytes()
    files["requirements.txt"] = _image_requirements(lab.root)
    files["setup.sh"] = (PACKAGE / "gradescope" / "setup.sh").read_bytes()
    runner = (PACKAGE / "gradescope" / "run_autograder").read_text(encoding="utf-8")
    files["run_autograder"] = runner.replace("@LAB@", lab.name).encode()
    return files


def zipped(files: Files) -> bytes:
    """A zip with the same bytes for the same files: sorted, one time, one mode for scripts and one for the rest."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            script = name in ("setup.sh", "run_autograder")
            info.external_attr = (0o100755 if script else 0o100644) << 16
            archive.writestr(info, files[name])
    return buffer.getvalue()


def imported_files(roots: Iterable[str]) -> list[str]:
    """The files of this package that the given modules import, directly or not, as paths beside the package."""
    found: set[str] = set()
    todo = list(roots)
    while todo:
        module = todo.pop()
        path = PACKAGE.parent / (module.replace(".", "/") + ".py")
        if not path.exists():
            path = PACKAGE.parent / module.replace(".", "/") / "__init__.py"
        if not path.exists() or (name := path.relative_to(PACKAGE.parent).as_posix()) in found:
            continue
        found.add(name)
        parts = module.split(".")
        todo += [".".join(parts[:i]) for i in range(1, len(parts))]
        todo += imported_modules(ast.parse(path.read_text(encoding="utf-8")))
    return sorted(found)


def imported_modules(tree: ast.Module) -> list[str]:
    """Modules of this package that a source imports; a name imported from one may be a module itself."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("autograder"):
            found += [node.module, *(f"{node.module}.{item.name}" for item in node.names)]
        elif isinstance(node, ast.Import):
            found += [item.name for item in node.names if item.name.startswith("autograder")]
    return found


def _requirements(root: Path, wanted: tuple[str, ...]) -> bytes:
    path = root / "requirements.txt"
    pinned = {line.partition("==")[0].strip(): line for line in course.read_text(path).splitlines() if "==" in line}
    for name in wanted:
        if name not in pinned:
            raise AuthoringError(
                f"{path}: no line `{name}==…`: what is handed out and the image need its exact version"
            )
    return "\n".join(line for name, line in pinned.items() if name in wanted).encode() + b"\n"


def _image_requirements(root: Path) -> bytes:
    settings = course.settings(root)
    head = [f"--extra-index-url {settings.torch.index}"] if settings.torch.index else []
    return "\n".join([*head, settings.torch.requirement]).encode() + b"\n" + _requirements(root, (*GRADING, "jinja2"))


def _lab_toml(lab: Lab) -> bytes:
    """A lab.toml for students: no secret, and the points of the checks that are there."""
    text = json.dumps  # a TOML string is written like a JSON one
    lines = [f"title = {text(lab.file.title, ensure_ascii=False)}", f"main = {text(lab.file.main)}"]
    lines += [f"requires = {text(list(lab.file.requires))}", "", "[limits]"]
    lines += [f"{name} = {value}" for name, value in lab.file.limits.model_dump().items()] + [""]
    for section in lab.file.sections:
        found = [check.points for check in lab.checks if check.section == section.number]
        if found:
            lines += [
                "[[sections]]",
                f"number = {text(section.number)}",
                f"title = {text(section.title, ensure_ascii=False)}",
            ]
            lines += [f"points = {points(found)}", f"extra_credit = {text(section.extra_credit)}", ""]
    return "\n".join(lines).encode()


def _sources(folder: Path) -> list[Path]:
    kept = (".py", ".toml", ".md", ".sh", ".html", ".css", ".mo", "")
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix in kept)
    # Only what lies below the folder counts: the course itself may stand in a hidden one.
    return [path for path in found if not any(part[0] == "." or part == "__pycache__" for part in _below(path, folder))]


def _below(path: Path, folder: Path) -> tuple[str, ...]:
    return path.relative_to(folder).parts
