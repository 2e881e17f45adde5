"""The git commit of a directory, and whether it has changes that are not committed."""

import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_SECONDS = 5.0
"""Seconds that git may take: a run does not wait longer for a large checkout."""
_OPTIONS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
"""No program that the checkout names is started."""


@dataclass(frozen=True)
class CodeVersion:
    """The commit that is checked out; `dirty` is None if git could not say in time. It regards the directory only."""

    commit: str
    branch: str
    dirty: bool | None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)


def code_version(directory: Path) -> CodeVersion | None:
    """Return the version of the code in `directory`; None outside of a git checkout, without git or without a commit."""
    commit = _git(directory, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return None
    branch = _git(directory, "rev-parse", "--abbrev-ref", "HEAD") or ""
    changes = _git(directory, "status", "--porcelain", "--untracked-files=normal", "--", ".")
    return CodeVersion(commit, "" if branch == "HEAD" else branch, None if changes is None else bool(changes))


def _git(directory: Path, *words: str) -> str | None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    argv = ["git", "-C", str(directory), *_OPTIONS, *words]
    try:
        done = subprocess.run(
            argv, capture_output=True, env=environment, stdin=subprocess.DEVNULL, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None
