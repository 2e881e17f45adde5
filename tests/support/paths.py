"""Paths in the repository."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "images" / "train" / "programs"
CASES = ROOT / "tests" / "cases"
"""Inventories and the like that tests read, a file each."""
STANDIN = Path(__file__).parent / "standin"
"""A training program without TensorFlow, `task.sh`: a `code:` directory, and /bin/task in the tiny image."""
SPARK_PYTHONPATH = (str(ROOT), str(Path(__file__).parent / "spark_site"))
"""For a Spark: our own sources, and what its Python workers import before they are forked."""


def cache_home() -> Path:
    """Return where images, and other things that take long to make, are kept between sessions."""
    stated = Path(os.environ.get("XDG_CACHE_HOME") or "")
    return (stated if stated.is_absolute() else Path.home() / ".cache") / "tfprov-tests"
