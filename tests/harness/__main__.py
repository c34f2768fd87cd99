"""Build each lab's image and run hand-ins in it, beside `grade` here: `python -m harness [LAB …]`, or `make platform`."""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

from autograder import bundle
from autograder import lab as labs
from autograder.lab import Lab
from autograder.reports import preview
from autograder.reports.gradescope import Results
from autograder.reports.words import number
from harness import ROOT, CannotRun, base, dockerfile, gradescope, handins, report
from harness.container import Container, Limits


def main() -> int:
    """Try every lab; 0 where everything is as it must be."""
    options = arguments()
    out, limits = options.out.resolve(), Limits(options.megabytes, options.cores)
    try:
        bare = base.made(out)
        if options.dockerfile:
            return dockerfile_tried(labs.load(options.labs[0], ROOT), bare, out, limits)
        rows = [row for name in options.labs for row in tried(labs.load(name, ROOT), bare, out, limits)]
    except CannotRun as error:
        print(f"platform: {error}", file=sys.stderr)
        return 2
    faults = [f"{row.lab}, {row.hand_in.name}: {fault}" for row in rows for fault in row.faults()]
    text = f"{where(bare, limits)}\n\n{report.table(rows)}"
    print(f"\n{text}\n\nwhat students and staff see of each: {out}/runs/LAB/HAND-IN/preview.txt")
    print("\n".join(["", *faults]) if faults else "everything as it must be")
    if options.table:
        report.put(text, options.table)
    return 1 if faults else 0


def arguments() -> argparse.Namespace:
    """The words of the call."""
    parser = argparse.ArgumentParser(prog="python -m harness", description=__doc__)
    parser.add_argument(
        "labs", metavar="LAB", nargs="*", default=sorted(path.name for path in (ROOT / "reference").iterdir())
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "out/platform", help="roots, images and runs (default: %(default)s)"
    )
    parser.add_argument(
        "--megabytes", type=int, default=Limits.megabytes, help="memory of a container (default: %(default)s)"
    )
    parser.add_argument(
        "--cores", type=float, default=Limits.cores, help="its share of the processor (default: %(default)s)"
    )
    parser.add_argument("--table", type=Path, help="write the table into this page, too, between its marks")
    parser.add_argument("--dockerfile", action="store_true", help="instead: the steps of the Dockerfile, with one lab")
    return parser.parse_args()


def tried(lab: Lab, bare: Path, out: Path, limits: Limits) -> list[report.Row]:
    """The image of a lab, and every hand-in in it and here."""
    archive = bundle.write_zips(lab.name, ROOT, out / "zips")[1]
    image = gradescope.build(bare, archive, out / "images" / lab.name)
    tell(f"{lab.name}: image {f'built in {image.seconds:.0f} s' if image.seconds else 'was there'}")
    rows = []
    for at, one in enumerate(handins.all_of(lab)):
        folder = out / "runs" / lab.name / re.sub(r"\W+", "_", one.name)
        shutil.rmtree(folder, ignore_errors=True)
        known = gradescope.metadata(4711 + at, lab.file.title, f"{lab.max_score:.1f}", datetime(2026, 3, 2, 14, 22, 32))
        outcome = gradescope.graded(image, one, folder, known, limits, lab.max_score / 2)
        here = None if one.killed else graded_here(lab, folder / "hand-in", folder / "here")
        rows.append(report.Row(lab.name, one, outcome, here, lab.max_score))
        report.keep(rows[-1], folder)
        shutil.rmtree(folder / "container")
        tell(f"{lab.name}: {one.name}: {', '.join(rows[-1].faults()) or 'as it must be'}")
    return rows


def dockerfile_tried(lab: Lab, bare: Path, out: Path, limits: Limits) -> int:
    """Build by the Dockerfile and grade the lab's reference in what came of it; 0 where it gets all points."""
    image = Container((bare,), out / "images/dockerfile")
    begun = time.monotonic()
    state = dockerfile.build(ROOT / "Dockerfile", image)
    tell(f"Dockerfile: built in {time.monotonic() - begun:.0f} s")
    folder = out / "runs/dockerfile"
    shutil.rmtree(folder, ignore_errors=True)
    path = handins.put(handins.all_of(lab)[0], folder / "hand-in")
    words = ("grade", lab.name, "/hand-in", "--out", "/out")
    ended = dockerfile.run(state, image, folder / "container", words, path, limits)
    found, fault = gradescope.received(ended.results)
    score = f"{number(found.score)} of {number(lab.max_score)} points" if found else fault
    tell(
        f"Dockerfile: {' '.join(words)}: status {ended.status}, {score}, {ended.seconds:.1f} s, left: {len(ended.left)}"
    )
    return 0 if found and found.score >= lab.max_score and not ended.left else 1


def graded_here(lab: Lab, hand_in: Path, out: Path) -> Results:
    """The same results file by `grade` on this machine, cut as the platform would."""
    command = ["-m", "autograder", "--course", str(ROOT), "grade", lab.name, str(hand_in), "--out", str(out)]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotRun(f"`grade {lab.name} {hand_in}` does not work on this machine: {done.stderr.strip()}")
    found, _ = gradescope.received(preview.read(out).model_dump_json())
    assert found is not None
    return found


def where(bare: Path, limits: Limits) -> str:
    """On what it was tried."""
    return (
        f"{time.strftime('%Y-%m-%d')}. Base: {base.release(bare)}, made bare with {', '.join(base.PACKAGES)}; "
        f"{limits.megabytes} MB, {number(limits.cores)} of a core; kernel {platform.release().partition('-')[0]}. "
        f"Here: Python {platform.python_version()}."
    )


def tell(what: str) -> None:
    """How far it has come."""
    print(f"{time.strftime('%H:%M:%S')}  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
