"""Files of tasks that this user may not read, such as those of another one."""

from pathlib import Path

import pytest

from tests.support.permissions import forbidden
from tfprov.errors import HostError
from tfprov.hosts.process.runtime import ProcessRuntime
from tfprov.hosts.process.task_dir import TaskDir


@pytest.mark.parametrize("name", ["", "order.json", "state.json", "lock"])
def test_a_task_that_cannot_be_looked_at_is_not_taken_for_one_that_never_started(tmp_path: Path, name: str) -> None:
    directory = TaskDir(tmp_path / "tasks" / "worker-0")
    directory.path.mkdir(parents=True)
    for file in ("order.json", "state.json"):
        directory.write(file, {})
    (directory.path / "lock").touch()
    runtime = ProcessRuntime("h1", tmp_path)
    error = r"^h1: Permission denied: .*/worker-0/.*; give this user access to it$"
    with forbidden(directory.path / name), pytest.raises(HostError, match=error):
        runtime.observe()
    assert [one.task for one in runtime.observe().containers] == ["worker/0"]


def test_a_directory_of_checkpoints_that_cannot_be_listed_does_not_count_as_empty(tmp_path: Path) -> None:
    """What is not listed counts as not there, and its task may be removed."""
    folder = TaskDir(tmp_path / "tasks" / "worker-0").checkpoints / "best"
    folder.mkdir(parents=True)
    (folder / "model.keras").touch()
    runtime = ProcessRuntime("h1", tmp_path)
    with forbidden(folder), pytest.raises(HostError, match="Permission denied"):
        runtime.files("worker/0")
    assert [*runtime.files("worker/0")] == ["best/model.keras"]
    assert dict(ProcessRuntime("h1", tmp_path / "elsewhere").files("worker/0")) == {}
