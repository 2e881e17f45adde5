"""Run a dispatcher or worker of tf.data's service until a signal ends it.

    python -m tfprov.runtime.data_service dispatcher --port=2222 --work_dir=DIR
    python -m tfprov.runtime.data_service worker --port=2222 --address=HOST:2222 --dispatcher=HOST:2222

The dispatcher keeps a journal in its `work_dir`: after a restart it goes on with the data that it has not handed out
yet. Each training has a journal of its own, because the data of the previous one is used up.

A program reads from it with

    dataset.apply(tf.data.experimental.service.distribute("distributed_epoch", os.environ["TFPROV_DATA_SERVICE"]))

Exit codes: 143 after SIGTERM, 130 after Ctrl-C, 1 when it cannot serve (one line on stderr).
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tfprov.runtime.lazy_tensorflow import tensorflow
from tfprov.runtime.signals import Signals, die

RUN_VARIABLE = "TFPROV_RUN"
"""The variable with the id of the training."""


def main(argv: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    """Parse the command line `argv` and serve."""
    options = _parser().parse_args(argv)
    faulthandler.register(signal.SIGUSR1, file=2)
    with Signals().handled():
        server = _start_dispatcher(options, environ) if options.role == "dispatcher" else _start_worker(options)
        sys.stderr.write(f"tfprov: {options.role} of tf.data's service on port {options.port}\n")
        while server:
            time.sleep(3600)
    raise AssertionError("a server ends by a signal")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tfprov.runtime.data_service")
    roles = parser.add_subparsers(dest="role", required=True)
    dispatcher, worker = roles.add_parser("dispatcher"), roles.add_parser("worker")
    for role in (dispatcher, worker):
        role.add_argument("--port", type=int, required=True, help="the port to serve on")
    dispatcher.add_argument("--work_dir", type=Path, required=True, help="where the journal is kept")
    worker.add_argument("--address", required=True, help="host:port under which training tasks reach this worker")
    worker.add_argument("--dispatcher", required=True, help="host:port of the dispatcher")
    return parser


def journal_directory(directory: Path, environ: Mapping[str, str]) -> Path:
    """Return the journal directory of this training, below the `work_dir` of its dispatcher."""
    return directory / "journal" / (environ.get(RUN_VARIABLE) or "run")


def _start_dispatcher(options: argparse.Namespace, environ: Mapping[str, str]) -> Any:
    service = _service()
    work_dir = journal_directory(options.work_dir, environ)
    work_dir.mkdir(parents=True, exist_ok=True)
    config = service.DispatcherConfig(port=options.port, work_dir=str(work_dir), fault_tolerant_mode=True)
    return _start_server(lambda: service.DispatchServer(config), options)


def _start_worker(options: argparse.Namespace) -> Any:
    service = _service()
    config = service.WorkerConfig(
        dispatcher_address=options.dispatcher, worker_address=options.address, port=options.port
    )
    return _start_server(lambda: service.WorkerServer(config), options)


def _start_server(start: Callable[[], Any], options: argparse.Namespace) -> Any:
    try:
        return start()
    except Exception as error:  # TensorFlow raises several types for the same failure
        reason = next(iter(str(error).splitlines()), "unknown reason")
        die(f"the {options.role} of tf.data's service cannot serve on port {options.port}: {reason}")


def _service() -> Any:
    # Data is prepared on the CPU; a GPU would only be taken from a task that trains on the same machine.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    return tensorflow().data.experimental.service


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
