"""The directory of a user who works in it: an inventory, a program, and a home of its own for what tfprov keeps."""

from pathlib import Path

import pytest


def enter(directory: Path, monkeypatch: pytest.MonkeyPatch, inventory: str, code: str = "code") -> None:
    """Go into a directory for the rest of the test, with an inventory, and a program in the directory `code`."""
    monkeypatch.chdir(directory)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(directory / "home"))
    (directory / "inventory.yml").write_text(inventory)
    (directory / code).mkdir()
    (directory / code / "linear.py").write_text("print('a program')\n")
