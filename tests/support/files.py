"""Directories of files for tests."""

import os
from pathlib import Path


def write(directory: Path, files: dict[str, str], umask: int = 0o022) -> Path:
    before = os.umask(umask)
    try:
        for name, text in files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    finally:
        os.umask(before)
    return directory
