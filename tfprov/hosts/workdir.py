"""What a task of the process runtime is started in: a fresh copy of its code, and what lies beside that."""

import shutil
from pathlib import Path

from tfprov.files import private_directory
from tfprov.hosts.taskdir import TaskDir
from tfprov.model.state import Container

_PACKAGE = Path(__file__).resolve().parent.parent


def make(directory: TaskDir, container: Container, code: Path | None) -> None:
    """Make the working directory of `container` anew, from `code`; its checkpoint directory stays. Raises OSError."""
    private_directory(directory.checkpoints)
    if directory.work.exists():
        shutil.rmtree(directory.work)
    if code is None:
        private_directory(directory.work)
    else:  # a copy of its own: what a program writes beside itself must not change what the next task runs
        shutil.copytree(code, directory.work, symlinks=True)
        directory.work.chmod(0o700)
    if container.link is not None:
        _link(directory.work / container.link[0], Path(container.link[1]))
    if container.python is not None:
        _bring_runtime(directory.runtime)


def _link(link: Path, target: Path) -> None:
    """Make `link` lead to the directory `target`, also before the chief, whose it is, was started at all."""
    private_directory(target)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target, target_is_directory=True)


def _bring_runtime(directory: Path) -> None:
    """Let another Python than ours import `tfprov.runtime`, and nothing else of what lies beside it."""
    private_directory(directory)
    link = directory / _PACKAGE.name
    link.unlink(missing_ok=True)
    link.symlink_to(_PACKAGE, target_is_directory=True)
