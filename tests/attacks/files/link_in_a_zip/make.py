"""A zip in which attention.py is a link to the reference."""

import zipfile
from pathlib import Path

REFERENCE = Path(__file__).resolve().parents[4] / "reference" / "attention" / "attention.py"


def make(folder: Path) -> Path:
    path = folder / "hand-in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("attention.py")
        info.create_system, info.external_attr = 3, 0o120777 << 16
        archive.writestr(info, str(REFERENCE))
    return path
