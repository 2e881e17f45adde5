"""The supervisor of a detached run: follows the training without a terminal, and takes the cluster down at its end.

    python -m tfprov.cli.runs.supervise RUN_DIRECTORY

It reads its order from standard input, and begins when that ends: when the process that started it lets go or has ended.
SIGTERM, as of a machine that shuts down, ends it as a closed terminal ends a verb: what runs goes on, for `attach`.
"""

import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tfprov.errors import CombinedError, HangUp, TfprovError, Usage, mask_secrets
from tfprov.file_locks import open_lock, take_lock
from tfprov.history.run_dir import RunDir
from tfprov.history.session import exit_code
from tfprov.supervision.order import SupervisorOrder

_BUSY = 3
"""Exit code when the run has a supervisor."""


def main(directory: RunDir, environ: Mapping[str, str]) -> int:
    """Supervise the run in `directory`; return the exit code of the run."""
    if not take_lock(open_lock(directory.supervisor_lock)):  # until this process ends
        print(f"{directory.id} has a supervisor", file=sys.stderr)
        return _BUSY
    try:
        order = SupervisorOrder.from_json(sys.stdin.buffer.readline())
        sys.stdin.buffer.read()
        _supervise(directory, order, environ)
    except (TfprovError, HangUp) as error:
        print("\n".join(error_lines(error)), file=sys.stderr)
        return exit_code(error)
    return 0


def error_lines(error: BaseException) -> list[str]:
    """Return what ended the supervisor; `attach` shows the last line where the record of the run has no end."""
    errors = error.errors if isinstance(error, CombinedError) else (error,)
    return [f"error: {str(one) or 'stopped by a signal'}" for one in errors]


def _supervise(directory: RunDir, order: SupervisorOrder, environ: Mapping[str, str]) -> None:
    from tfprov.api import Cluster  # noqa: PLC0415  the lock shows at once that there is a supervisor
    from tfprov.playbook.supervise import SupervisedRun, supervise  # noqa: PLC0415
    from tfprov.vault.decrypt import Vault  # noqa: PLC0415
    from tfprov.vault.passwords import Passwords  # noqa: PLC0415

    passwords = Passwords(order.vault_ids, order.vault_files, prompt=False, ask=None, environ=environ)
    cluster = Cluster.load(
        *order.sources,
        extra=list(order.extra),
        limit=order.limit,
        forks=order.forks,
        accept_new=order.accept_new,
        vault=Vault.with_secrets(order.secrets, passwords),
        lookup_dirs=order.lookup_dirs,
    )
    if cluster.name != directory.cluster:  # its tasks would be taken down at the end, and its history get this run
        source = Path(order.directory, order.sources[-1]) if order.sources else order.directory
        raise Usage(
            f"{source} has the cluster {cluster.name}, and the run {directory.id} is of {directory.cluster}",
            "name its inventory: `tfprov attach -i FILE`",
        )
    passed = max(0.0, time.time() - order.begun)
    with cluster:
        options = SupervisedRun(
            passed,
            discard=order.discard,
            may_start=order.may_start,
            drain=order.drain,
            only_running=order.only_running,
            partial=order.partial,
            resume=order.resume,
        )
        supervise(cluster.prepare(connect=True), directory.id, options)


def _terminate(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    raise HangUp


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _terminate)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        code = main(RunDir(Path(sys.argv[1])), os.environ)
    except Exception as error:  # it has no caller that could print it
        print(mask_secrets(f"error: {type(error).__name__}: {error}"), file=sys.stderr)
        code = 1
    sys.stderr.flush()
    os._exit(code)  # threads that read logs or wait for a host are not joined
