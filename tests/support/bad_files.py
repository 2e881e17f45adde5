"""The invalid files in tests/cases, and the error lines each of them must cause."""

from pathlib import Path

from tests.support.paths import CASES

INVENTORIES = sorted((CASES / "bad").glob("*.yml"))


PLAYBOOKS = sorted((CASES / "bad_playbooks").glob("*.yml"))


def expected(path: Path) -> list[str]:
    """Return the error lines in the comments of a case."""
    lines = path.read_text().splitlines()
    return [line.removeprefix("# ") for line in lines if line.startswith("# ") and ": error: " in line]
