"""The commands: `python -m autograder VERB …`. Each verb imports what it needs, and only grading starts torch."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path

from autograder import __version__
from autograder.terminal import add_language, forgive_encoding

WRONG_CALL = 2


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status: 0 done, 1 not as it should be, 2 a wrong call."""
    forgive_encoding()
    options = parser().parse_args(arguments)
    from autograder.check import AuthoringError
    from autograder.sandbox.launcher import LaunchError
    from autograder.strip import StripError

    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except (AuthoringError, StripError, WrongCall) as error:
        print(f"autograder: {error}", file=sys.stderr)
        return WRONG_CALL
    except LaunchError as error:
        print(f"autograder: nothing can be graded on this machine: {error}", file=sys.stderr)
        return WRONG_CALL
    except BrokenPipeError:  # the reader, `head` for one, has seen enough
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"autograder: {error.filename or 'a file'}: {error.strerror or error}", file=sys.stderr)
        return WRONG_CALL
    except KeyboardInterrupt:
        again = "; run it again to go on, and for the grade book and the report" if options.run is run_grade_all else ""
        print(f"autograder: interrupted; what had been graded by then is written{again}", file=sys.stderr)
        return 130


class WrongCall(Exception):
    """What was asked for cannot be done: one sentence."""


def parser() -> argparse.ArgumentParser:
    """All verbs with their help."""
    top = argparse.ArgumentParser(
        prog="python -m autograder",
        description="Grade hand-ins of the attention labs, and make what students and Gradescope receive.",
        epilog="Each verb has its own help: python -m autograder grade --help",
    )
    top.add_argument("--version", action="version", version=__version__)
    top.add_argument("--course", type=Path, default=None, metavar="DIR", help="the course (default: found from here)")
    verbs = top.add_subparsers(title="verbs", metavar="VERB", required=True)

    grade = verbs.add_parser(
        "grade",
        help="grade one hand-in and print the table of points",
        description="Grade one hand-in (a .py, a notebook, a folder or a zip) and print the table of points, with the "
        "reason for each lost one.",
        epilog="example: python -m autograder grade attention reference/attention/examples/no_scale --out out",
    )
    grade.add_argument("lab", metavar="LAB", help="name of the lab: a folder of assignments/")
    grade.add_argument("submission", metavar="SUBMISSION", type=Path, help="file, folder, zip or notebook")
    grade.add_argument("--out", type=Path, metavar="DIR", help="write feedback.html, record.json and results.json there")
    grade.add_argument("--student", action="store_true", help="print what the student sees, without staff's lines")
    add_language(grade, "`language` of course.toml")
    grade.set_defaults(run=run_grade)

    every = verbs.add_parser(
        "grade-all",
        help="grade a whole class: grade book, a page for each student, class report",
        description="Grade the hand-ins of a class: an export of Gradescope (folder or zip), a download of Canvas, clones of "
        "GitHub Classroom, or a folder with a folder, .py, notebook or zip for each student. Started again, it goes on "
        "where it was and grades only what has changed.",
        epilog="example: python -m autograder grade-all attention assignment_123_export --out class --workers 4",
    )
    every.add_argument("lab", metavar="LAB", help="name of the lab: a folder of assignments/")
    every.add_argument("submissions", metavar="SUBMISSIONS", type=Path, help="folder or zip with the class's hand-ins")
    every.add_argument(
        "--out", type=Path, default=Path("out"), metavar="DIR", help="where everything goes (default: out)"
    )
    every.add_argument(
        "--workers", type=workers, default=0, metavar="N", help="grading processes (default: one per core)"
    )
    every.add_argument("--scheduler", default="", metavar="ADDRESS", help="a Dask cluster instead: tcp://host:8786")
    every.add_argument(
        "--canvas", type=Path, metavar="CSV", help="Canvas's grade book export; filled in as DIR/canvas.csv"
    )
    every.add_argument(
        "--column", default="", metavar="NAME", help="the column of --canvas (default: the lab's title or name)"
    )
    every.add_argument(
        "--codes", action="store_true", help="codes instead of names everywhere; who is who: DIR/codes.csv"
    )
    add_language(every, "`language` of course.toml")
    every.set_defaults(run=run_grade_all)

    trial = verbs.add_parser(
        "trial",
        help="make a class of hand-ins to try grade-all on, with the truth about each",
        description="Write hand-ins made from the lab's reference, its other right ways, its mistakes and its examples, some "
        "of them broken, in the form of an export; DIR/truth.csv says what was planted in each.",
    )
    trial.add_argument("lab", metavar="LAB", help="name of the lab")
    trial.add_argument("out", metavar="DIR", type=Path, help="a new folder for the class")
    trial.add_argument("--students", type=int, default=30, metavar="N", help="how many (default: 30)")
    trial.add_argument("--broken", type=int, default=None, metavar="N", help="how many are broken (default: one in 20)")
    trial.add_argument("--seed", type=int, default=0, metavar="N", help="another number, another class (default: 0)")
    trial.add_argument(
        "--form", choices=("gradescope", "canvas", "folder"), default="gradescope", help="kind of export"
    )
    trial.set_defaults(run=run_trial)

    demo = verbs.add_parser("demo", help="grade every example hand-in of a lab and print one line for each")
    demo.add_argument("labs", metavar="LAB", nargs="*", help="labs (default: all)")
    add_language(demo, "`language` of course.toml")
    demo.set_defaults(run=run_demo)

    starter = verbs.add_parser(
        "starter",
        help="strip the references into starter_code/",
        description="Strip the solutions out of reference/ and write what students start from to starter_code/.",
    )
    starter.add_argument("labs", metavar="LAB", nargs="*", help="labs (default: all)")
    starter.set_defaults(run=run_starter)

    zips = verbs.add_parser(
        "zips",
        help="build the student's zip and the autograder's zip",
        description="Build dist/LAB/LAB-student.zip (handed out) and dist/LAB/LAB-autograder.zip (for Gradescope).",
    )
    zips.add_argument("labs", metavar="LAB", nargs="*", help="labs (default: all)")
    zips.add_argument("--out", type=Path, default=Path("dist"), metavar="DIR", help="where to (default: dist)")
    zips.set_defaults(run=run_zips)

    new = verbs.add_parser(
        "new",
        help="make a new lab from the template",
        description="Make a small lab that passes the audit, to be changed piece by piece: see docs/writing-a-lab.md.",
    )
    new.add_argument("lab", metavar="LAB", help="its name: small letters, digits and _, as for a Python file")
    new.add_argument("--title", default="", help="its title (default: from its name)")
    new.set_defaults(run=run_new)

    rename = verbs.add_parser("rename", help="give a lab another name, its folders and its main file with it")
    rename.add_argument("lab", metavar="LAB", help="its name now")
    rename.add_argument("to", metavar="TO", help="its name from now on")
    rename.set_defaults(run=run_rename)

    remove = verbs.add_parser("remove", help="remove all folders of a lab")
    remove.add_argument("lab", metavar="LAB", help="which one")
    remove.add_argument("--yes", action="store_true", help="without it, only what would be removed is said")
    remove.set_defaults(run=run_remove)

    audit = verbs.add_parser(
        "audit",
        help="grade the grader: prove the four laws of a lab",
        description="Prove that the untouched starter scores 0, that the reference and every other right way score "
        "everything, that each catalogued mistake loses points where it should and is named, and that nothing that "
        "is handed out holds a solution. Exit status 1 where something is not so.",
    )
    audit.add_argument("labs", metavar="LAB", nargs="*", help="labs (default: all)")
    audit.add_argument("--out", type=Path, metavar="DIR", help="write the matrix of mistakes and checks there, as HTML")
    for name, what in (
        ("mutants", "also grade automatic mutants of the reference (minutes)"),
        ("naming", "also count what is named: random wrong outputs, and pairs of mistakes (minutes)"),
        (
            "stability",
            "also grade every hand-in again, with other hash seeds, threads and rounding (five times as long)",
        ),
        ("matrix", "also print the matrix (for a wide terminal)"),
    ):
        audit.add_argument(f"--{name}", dest="more", action="append_const", const=name, default=[], help=what)
    audit.set_defaults(run=run_audit)

    messages = verbs.add_parser(
        "messages",
        help="bring the catalogues of translations up to date",
        description="Collect what students read, in the framework and in each lab, and update locale/LANG.po beside it: "
        "translations stay, new texts are empty, changed ones are marked fuzzy. Writes the .mo that is read at work, and "
        "says what is not translated yet. Exit status 1 where something is not.",
    )
    messages.add_argument("labs", metavar="LAB", nargs="*", help="labs (default: the framework, and all that have one)")
    messages.add_argument("--lang", default="zh", metavar="LANG", help="into which language (default: zh)")
    messages.set_defaults(run=run_messages)

    preview = verbs.add_parser(
        "preview",
        help="show what a student sees of results.json on Gradescope, now and later",
        description="Print what a student will see: now, after the due date, and once grades are published.",
    )
    preview.add_argument("results", metavar="PATH", type=Path, help="a results.json, or the folder that holds it")
    preview.set_defaults(run=run_preview)

    schema = verbs.add_parser("schema", help="print docs/results.md: the form of record.json")
    schema.set_defaults(run=run_schema)

    platform = verbs.add_parser(
        "gradescope",
        help="grade as Gradescope's run_autograder does",
        description="Grade ROOT/submission and write ROOT/results/results.json. Called by run_autograder in the image.",
    )
    platform.add_argument("lab", metavar="LAB", help="name of the lab")
    platform.add_argument("--root", type=Path, default=Path("/autograder"), metavar="ROOT", help="default: /autograder")
    platform.set_defaults(run=run_gradescope)
    return top


def run_grade(options: argparse.Namespace) -> int:
    """Grade one hand-in."""
    if not os.path.exists(options.submission):
        raise WrongCall(f"there is no {options.submission}: name the file, folder or zip that was handed in")
    if options.out:
        writable(options.out)
    from autograder.sandbox.launcher import Zygote

    with Zygote() as zygote:  # first of all: torch loads while everything below is imported and read
        from rich.console import Console

        from autograder import course, lab
        from autograder.grade import nowhere
        from autograder.reports import console, files, words
        from autograder.session import Session
        from autograder.submission import CollectError, collect

        root = course_root(options)
        loaded = lab.load(options.lab, root, lang=options.lang or "")
        sink = files.writer(options.out, course.settings(root)) if options.out else nowhere
        try:
            with loaded.speaking():
                submission = collect(options.submission, loaded.wanted)
        except CollectError as error:
            raise WrongCall(str(error)) from error
        with Session(loaded, zygote) as session:
            record = session.grade(submission, sink)
    shown = words.for_student(record, course.settings(root).feedback) if options.student else record
    console.render(shown, Console(highlight=False), staff=not options.student)
    if options.out:
        print(f"\nwritten: {options.out / 'feedback.html'}, {options.out / 'record.json'}, {options.out / 'results.json'}")
    return 0


def run_grade_all(options: argparse.Namespace) -> int:
    """Grade a class. No torch here: the workers load it."""
    from autograder.classroom import run

    writable(options.out)
    wish = run.Wish(
        lab=options.lab,
        submissions=options.submissions,
        out=options.out,
        workers=options.workers or len(available_cores()),
        scheduler=options.scheduler,
        canvas=options.canvas,
        column=options.column,
        codes=options.codes,
        lang=options.lang or "",
    )
    try:
        return run.grade_all(wish, course_root(options))
    except run.ClassError as error:
        raise WrongCall(str(error)) from error


def run_trial(options: argparse.Namespace) -> int:
    """Make a class to try things on."""
    from autograder.classroom import generator

    try:
        made = generator.write(
            options.lab, course_root(options), options.out, options.students, options.broken, options.seed, options.form
        )
    except generator.CannotMake as error:
        raise WrongCall(str(error)) from error
    print(f"{made}: {options.students} hand-ins; what was planted in each: {options.out / 'truth.csv'}")
    return 0


def workers(text: str) -> int:
    """A number of processes."""
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text} is no number of processes: 1 to 1024")
    return int(text)


def available_cores() -> set[int]:
    """The cores that this process may use, which in a container are fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def run_demo(options: argparse.Namespace) -> int:
    """Grade the example hand-ins that come with the labs."""
    from autograder.sandbox.launcher import Zygote

    with Zygote() as zygote:
        from autograder import demo

        root = course_root(options)
        return demo.run(root, chosen(options, root), zygote, options.lang or "")


def run_starter(options: argparse.Namespace) -> int:
    """Write starter_code/."""
    from autograder import bundle

    root = course_root(options)
    for name in chosen(options, root):
        for path in bundle.write_starter(name, root):
            print(path.relative_to(root).as_posix())
    return 0


def run_zips(options: argparse.Namespace) -> int:
    """Build the zips."""
    from autograder import bundle

    root = course_root(options)
    writable(options.out)
    for name in chosen(options, root):
        for path in bundle.write_zips(name, root, options.out):
            print(path)
    return 0


def run_messages(options: argparse.Namespace) -> int:
    """Update the catalogues of translations."""
    from autograder import course, messages

    root = course_root(options)
    there = [name for name in course.labs(root) if options.lang in messages.languages(root, name)]
    open_texts = [] if options.labs else messages.update_framework(options.lang)
    for name in options.labs or there:
        open_texts += messages.update_lab(name, root, options.lang)
    for sentence in open_texts:
        print(sentence)
    return 1 if open_texts else 0


def run_new(options: argparse.Namespace) -> int:
    """Make a lab from the template."""
    from autograder import scaffold

    root = course_root(options)
    for path in scaffold.new(options.lab, root, options.title):
        print(path.relative_to(root).as_posix())
    print(f"next: make audit LAB={options.lab}, then change it piece by piece: docs/writing-a-lab.md")
    return 0


def run_rename(options: argparse.Namespace) -> int:
    """Give a lab another name."""
    from autograder import scaffold

    for left in scaffold.rename(options.lab, options.to, course_root(options)):
        print(left)
    print(f"next: make audit LAB={options.to}")
    return 0


def run_remove(options: argparse.Namespace) -> int:
    """Remove a lab."""
    from autograder import scaffold

    root = course_root(options)
    for path in scaffold.remove(options.lab, root, really=options.yes):
        print(f"{'removed' if options.yes else 'would be removed'}: {path.relative_to(root).as_posix()}")
    if not options.yes:
        print("to do so: --yes, or make remove LAB=… YES=1")
    return 0


def run_audit(options: argparse.Namespace) -> int:
    """Grade the grader; several labs side by side, one on each processor."""
    root = course_root(options)
    names = chosen(options, root)
    if len(names) > 1 and len(available_cores()) > 1:
        return side_by_side(names, root, options)
    from autograder.sandbox.launcher import Zygote

    with Zygote() as zygote:
        from autograder.reports import audit

        return audit.run(root, names, zygote, options.out, frozenset(options.more))


def side_by_side(names: list[str], root: Path, options: argparse.Namespace) -> int:
    """Audit each lab in a process of its own, and print what they say in order; the worst of their exit statuses."""
    import subprocess
    from concurrent.futures import ThreadPoolExecutor

    more = [f"--{name}" for name in options.more] + (["--out", str(options.out)] if options.out else [])
    # The package's folder first: the one that runs here may be found by the working directory alone.
    path = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}

    def audited(name: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "autograder", "--course", str(root), "audit", name, *more]
        return subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

    status = 0
    with ThreadPoolExecutor(len(available_cores())) as pool:
        for done in pool.map(audited, names):
            sys.stdout.write(done.stdout.decode(errors="replace"))
            sys.stdout.flush()
            status = max(status, abs(done.returncode))  # below 0: a signal ended it
    return status


def run_preview(options: argparse.Namespace) -> int:
    """Show a results file as students will see it."""
    from rich.console import Console

    from autograder.reports import preview

    preview.render(preview.read(options.results), Console(highlight=False))
    return 0


def run_schema(options: argparse.Namespace) -> int:
    """Print what a record holds."""
    from autograder.reports import schema

    print(schema.page(), end="")
    return 0


def run_gradescope(options: argparse.Namespace) -> int:
    """Grade one hand-in inside the Gradescope image."""
    from autograder.gradescope import run

    writable(options.root / "results")
    return run.main(options.lab, options.root, course_root(options))


def chosen(options: argparse.Namespace, root: Path) -> list[str]:
    """The labs that a command is about: the ones named, else all. Raises WrongCall where there is none."""
    from autograder import course

    names: list[str] = options.labs or course.labs(root)
    if not names:
        raise WrongCall(f"{root} has no lab: no folder of assignments/ holds a lab.toml")
    return names


def writable(folder: Path) -> None:
    """Make the folder that results go to. Raises WrongCall where that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WrongCall(f"{folder} cannot be a folder for results: {error.strerror}") from error
    if not os.access(folder, os.W_OK | os.X_OK):  # said now, and not when everything is graded
        raise WrongCall(f"{folder} is closed to writing: name another folder, or open it")


def course_root(options: argparse.Namespace) -> Path:
    """The course to work on: `--course`, else the one the working directory or this package lies in."""
    from autograder import course
    from autograder.check import AuthoringError

    if options.course:
        return course.find_root(options.course.resolve())
    try:
        return course.find_root(Path.cwd())
    except AuthoringError:
        return course.find_root(Path(__file__).resolve().parent)
