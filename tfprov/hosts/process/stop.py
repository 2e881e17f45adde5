"""End the processes of a task, with or without its supervisor."""

import contextlib
import os
import signal
from typing import Any

from tfprov.atomic_write import replace
from tfprov.errors import HostError
from tfprov.hosts.process.proc import has_group, is_alive, signal_group, terminate, wait_until
from tfprov.hosts.process.spec import RUN
from tfprov.hosts.process.task_dir import TaskDir

_SETTLE_SECONDS = 10.0
"""Seconds beyond the grace period for a supervisor to end its task."""
_RECORD_SECONDS = 60.0
"""Seconds for it to record the end: a slow disk may hold it up."""


def stop_task(host: str, directory: TaskDir, task: str, grace: float) -> None:
    """End the processes of `task` on `host`: SIGTERM, after `grace` seconds SIGKILL. Raises HostError and OSError."""
    state_file = directory.read("state.json") or {}
    if directory.is_supervised():
        with contextlib.suppress(OSError):  # on a full disk, the supervisor takes the `stop_grace` of its order
            replace(directory.path / "grace", str(grace).encode(), mode=0o600)
        if is_alive(state_file.get("supervisor"), state_file.get("supervisor_identity")):
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(state_file["supervisor"], signal.SIGTERM)
                os.kill(state_file["supervisor"], signal.SIGCONT)  # somebody may have stopped it
        wait_until(lambda: not directory.is_supervised(), grace + _SETTLE_SECONDS)
        state_file = directory.read("state.json") or state_file
        if directory.is_supervised() and not is_alive(state_file.get("pid"), state_file.get("identity")):
            wait_until(lambda: not directory.is_supervised(), _RECORD_SECONDS)
        if directory.is_supervised():
            raise HostError(host, f"{task} did not stop (supervisor {state_file.get('supervisor')})")
        if is_alive(state_file.get("pid"), state_file.get("identity")):  # it was killed before it had ended the task
            _stop_unsupervised(directory, state_file, grace)
    elif isinstance(state_file.get("pid"), int):
        _stop_unsupervised(directory, state_file, grace)


def _stop_unsupervised(directory: TaskDir, state_file: dict[str, Any], grace: float) -> None:
    """Stop the processes of a task whose supervisor was killed; the exit code stays unknown."""
    pid, process_identity, order = state_file["pid"], state_file.get("identity"), directory.read("order.json") or {}
    environment_mark = f"{RUN}={order.get('run')}"

    def runs() -> bool:
        return is_alive(pid, process_identity) or has_group(pid, environment_mark)

    if not runs():
        return
    terminate(pid, passes_signals=order.get("passes_signals", False))
    wait_until(lambda: not runs(), grace)
    if runs():
        signal_group(pid, signal.SIGKILL)
        wait_until(lambda: not runs(), _SETTLE_SECONDS)
    directory.write("state.json", state_file | {"state": "exited", "exit_code": None, "stopped": True})
