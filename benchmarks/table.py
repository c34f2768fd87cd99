"""The figures of a run as a page has them: each tool beside the others, as ratios where seconds would not travel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import handins
from benchmarks.measure import median
from benchmarks.profile import FLOOR, WARM
from benchmarks.tools import PEERS, Ours, Tool

BEGINS = "<!-- written by `make bench`: what stands between these marks is overwritten -->"
ENDS = "<!-- end of what is written -->"
IMPORT = "import torch"
TOOLS: tuple[type[Tool], ...] = (Ours, *PEERS)
Figures = dict[str, Any]


def put(text: str, page: Path) -> None:
    """Write the table into a page, between its marks."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGINS)
    _, _, after = rest.partition(ENDS)
    page.write_text(f"{before}{BEGINS}\n{text}\n{ENDS}{after}", encoding="utf-8")


def of(figures: Figures) -> str:
    """All tables in Markdown."""
    return "\n\n".join(part for part in (head(figures), tools(figures), ours(figures), missing(figures)) if part)


def head(figures: Figures) -> str:
    """On what it was measured."""
    machine = figures["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{machine['date']}, {machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}, "
        f"Python {machine['python']}, torch {machine['torch']} on the CPU, one thread; {versions}. Load of the machine at the "
        f"start {machine['load_at_start'][0]:.1f}, at the end {figures['load_at_end'][0]:.1f}."
    )


def tools(figures: Figures) -> str:
    """A row for each tool."""
    few, many = figures["extent"]["few"], figures["extent"]["many"]
    columns = (
        "tool", "isolation", "one hand-in, × `import torch`", "its CPU, s", "its memory, MiB",
        f"{few} hand-ins, s each", f"{many} hand-ins, s each", "growth", "right points",
    )  # fmt: skip
    found = [line(columns), line(["---"] * len(columns)), line(import_row(figures))]
    for tool in TOOLS:
        if tool.name in figures["one"]:
            found += [line(row) for row in rows(figures, tool)]
    return "\n".join(found)


def import_row(figures: Figures) -> list[str]:
    """The measure of all others."""
    runs = figures["one"][IMPORT]
    return [f'`python -c "{IMPORT}"`', "", f"1 ({wall(runs):.2f} s)", f"{cpu(runs):.2f}", peak(runs), "", "", "", ""]


def rows(figures: Figures, tool: type[Tool]) -> list[list[str]]:
    """One row, or one for each number of workers."""
    runs = figures["one"][tool.name]
    alone = [tool.isolation, f"{ratio(runs, figures['one'][IMPORT]):.2f}", f"{cpu(runs):.2f}", peak(runs)]
    graded = [run for run in figures["class"] if run["tool"] == tool.name]
    few, many = figures["extent"]["few"], figures["extent"]["many"]
    if not graded:
        last = median([run["wall"] for run in runs[-few:]]) if tool.hundred else None
        sums = [timed(runs[:few]), timed(runs) if tool.hundred else None]
        growth = f"{last / wall(runs[:few]):.2f}" if last else ""
        return [[tool.name, *alone, *map(seconds, sums), growth, right(runs)]]
    found = []
    for workers in sorted({run["workers"] for run in graded}):
        named = f"{tool.name}, {workers} worker{'s' if workers > 1 else ''}" if tool is Ours else tool.name
        each = [per_hand_in(graded, workers, students, tool.name) for students in (few, many)]
        more = (each[1] * many - each[0] * few) / (many - few) / each[1]
        correct = right([*runs, *(run for run in graded if run["workers"] == workers)])
        found.append([named, *alone, *map(seconds, each), f"{more:.2f}", correct])
    return found


def ours(figures: Figures) -> str:
    """What has no column among the peers, each with the goal that it has."""
    few, many = figures["extent"]["few"], figures["extent"]["many"]
    graded = [run for run in figures["class"] if run["tool"] == Ours.name]
    one, two = (per_hand_in(graded, workers, many) for workers in (1, 2))
    floor = figures["floor_seconds"]
    watched, cold = median(figures["watch"]["watch"]), median(figures["watch"]["pytest"])
    memory = " and ".join(
        f"{max(run['peak'] for run in graded if run['students'] == students) >> 20:,}" for students in (few, many)
    )
    peers = {tool.name: timed(figures["one"][tool.name]) for tool in PEERS if tool.name in figures["one"]}
    for name in {run["tool"] for run in figures["class"]} & set(peers):
        peers[name] = per_hand_in(figures["class"], 1, many, name)
    more = [marginal(graded, workers, few, many) for workers in (1, 2)]
    lab1, floor1 = figures["lab1"][WARM], figures["lab1"][FLOOR]
    torch = wall(figures["one"][IMPORT])
    lines = [
        (
            "Lab 1 whole, one more hand-in, warm",
            f"{lab1:.0f} ms, {lab1 - floor1:.0f} beyond its floor of {floor1:.0f}",
            "60 beyond",
        ),
        (
            "the twenty checks, one more hand-in of a class, 1 worker",
            f"{1000 * more[0]:.0f} ms, {1000 * (more[0] - floor):.0f} beyond their floor of {1000 * floor:.0f}",
            "",
        ),
        (f"2 workers, × 1 worker: from hand-in {few} to {many}", f"{more[0] / more[1]:.2f}", "1.8"),
        (f"2 workers, × 1 worker: {many} hand-ins with the start", f"{one / two:.2f}", ""),
        (f"memory of all processes, {few} and {many} hand-ins, 2 workers", f"{memory} MiB", "flat"),
        *(
            (f"{name}, {many} hand-ins: × ours with 2 workers", f"{spent / two:.0f}", goal(name))
            for name, spent in sorted(peers.items(), key=lambda item: item[1])
        ),
        ("from a save to its answer, watch mode", f"{watched:.2f} s; a cold pytest × {cold / watched:.0f}", ""),
        *(
            (f"`python -m autograder {words}`", f"{median(spent):.2f} s", "0.4 s")
            for words, spent in figures["commands"].items()
            if not words.startswith("zips")
        ),
        *(
            (f"`{words}`: runs the reference, and each mistake", f"{median(spent) / torch:.1f} × `{IMPORT}`", "")
            for words, spent in figures["commands"].items()
            if words.startswith("zips")
        ),
    ]
    return "\n".join([line(("this framework", "measured", "goal")), line(["---"] * 3), *map(line, lines)])


def goal(peer: str) -> str:
    """How many times faster than a peer a class is to be."""
    tool = next(tool for tool in PEERS if tool.name == peer)
    return "10" if tool.name == "gradescope-utils" else "30" if tool.isolation != "none" else ""


def missing(figures: Figures) -> str:
    """Peers that could not be had."""
    return "\n".join(f"Left out: {name} ({reason})." for name, reason in figures["missing"].items())


def right(runs: list[Figures]) -> str:
    """In how many runs the points were what the hand-ins are worth."""
    good = sum(run["right"] if "right" in run else run["points"] == handins.points(run["student"]) for run in runs)
    return f"{good} of {len(runs)}"


def unwatched(runs: list[Figures]) -> list[Figures]:
    """Runs in which nobody looked at the memory, which takes time."""
    return [run for run in runs if not run["peak"]]


def wall(runs: list[Figures]) -> float:
    """Median of the seconds."""
    return median([run["wall"] for run in unwatched(runs)])


def cpu(runs: list[Figures]) -> float:
    """Median of the seconds of the processor."""
    return median([run["cpu"] for run in unwatched(runs)])


def peak(runs: list[Figures]) -> str:
    """The largest memory that was seen, MiB."""
    return f"{max(run['peak'] for run in runs) >> 20}"


def timed(runs: list[Figures]) -> float:
    """Seconds of each hand-in, where a class is graded one by one."""
    own = unwatched(runs)
    return float(sum(run["wall"] for run in own) / len(own))


def ratio(runs: list[Figures], beside: list[Figures]) -> float:
    """Median of the ratios to what ran in the same round."""
    pairs = zip(runs, beside)
    return median([run["wall"] / other["wall"] for run, other in pairs if not run["peak"]])


def per_hand_in(graded: list[Figures], workers: int, students: int, tool: str = Ours.name) -> float:
    """Seconds of each hand-in of a class."""
    asked = (tool, workers, students)
    fitting = [run for run in unwatched(graded) if (run["tool"], run["workers"], run["students"]) == asked]
    return median([run["wall"] / students for run in fitting])


def marginal(graded: list[Figures], workers: int, few: int, many: int) -> float:
    """Seconds of one more hand-in, once all is started: what a large class takes more than a small one."""
    small, large = (per_hand_in(graded, workers, students) * students for students in (few, many))
    return (large - small) / (many - few)


def seconds(value: float | None) -> str:
    """As it stands in a table; nothing where it was not measured."""
    return "" if value is None else f"{value:.3g}"


def line(cells: Any) -> str:
    """One line of a table."""
    return f"| {' | '.join(cells)} |"
