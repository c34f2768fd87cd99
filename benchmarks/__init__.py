"""How fast and how large the framework is, beside the tools that others use: `python -m benchmarks`, docs/benchmarks.md."""

from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
COURSE = HERE / "course"
