"""What of this machine's package set-up an image may see while it is built: pip's own files, and what they name on disk.

So an image is built here from what pip finds here, and nothing about this machine stands in the project.
"""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path


def pip_files() -> list[Path]:
    """Files that pip reads its settings from, and the local files and folders that these or its variables name."""
    said = subprocess.run([sys.executable, "-m", "pip", "config", "debug"], capture_output=True, text=True, check=False)
    settings = [Path(path) for path in re.findall(r"^\s+(/\S+), exists: True", said.stdout, re.MULTILINE)]
    named = [path for file in settings for path in local_paths(values(file))]
    return sorted({*settings, *named, *local_paths(pip_variables().values())})


def pip_variables() -> dict[str, str]:
    """pip's settings in the environment."""
    return {name: value for name, value in os.environ.items() if name.startswith("PIP_")}


def values(file: Path) -> list[str]:
    """All values of a file of pip's."""
    parsed = configparser.RawConfigParser()
    parsed.read(file, encoding="utf-8")
    return [value for section in parsed.sections() for value in parsed[section].values()]


def local_paths(texts: Iterable[str]) -> list[Path]:
    """The absolute paths in some settings that are there."""
    words = (word.removeprefix("file://") for text in texts for word in text.split())
    found = [Path(word) for word in words if word.startswith("/") and Path(word).exists()]
    # A local index may link to files that lie beside it.
    return [path.parent if path.name == "simple" else path for path in found]
