"""The files in tests/cases that cannot be used, and the lines that each must bring."""

from pathlib import Path

from tests.support.paths import CASES

INVENTORIES = sorted((CASES / "bad").glob("*.yml"))


PLAYBOOKS = sorted((CASES / "bad_playbooks").glob("*.yml"))


def expected(path: Path) -> list[str]:
    """Return the lines that a case begins with."""
    lines = path.read_text().splitlines()
    return [line.removeprefix("# ") for line in lines if line.startswith("# ") and ": error: " in line]
