"""Paths in the repository."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "images" / "train" / "programs"
CASES = ROOT / "tests" / "cases"
"""Inventories and the like that tests read, a file each."""
STANDIN = Path(__file__).parent / "standin"
"""A training program without TensorFlow, `task.sh`: a `code:` directory, and /bin/task in the tiny image."""
