"""A pool of threads that make temporary containers on hosts, and leave none of them behind after Ctrl-C."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tfprov.errors import HostError
from tfprov.hosts.docker.reachability_probe import sweep, token
from tfprov.hosts.machine import Machine

_HURRY = 20.0
"""Seconds without progress after which, after Ctrl-C, the removal of temporary containers is given up: a start in flight on
a busy host takes some 10 s. On a silent host those that were started end by themselves; a second Ctrl-C does not wait."""


@contextmanager
def container_pool(
    cluster: str, machines: Mapping[str, Machine], forks: int, stopping: threading.Event | None = None
) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool of `forks` threads, and wait for them at the end.

    After an error, and after Ctrl-C, nothing more is begun, `stopping` is set, and the containers that this process made
    on `machines` are removed, also those that are being made.
    """
    pool = ThreadPoolExecutor(max_workers=max(1, forks))
    progress, ended = threading.Event(), threading.Event()

    def end() -> None:
        try:
            pool.shutdown(wait=False, cancel_futures=True)
            sweep_hosts(cluster, machines, forks, swept=progress.set)
            pool.shutdown(wait=True)
            sweep_hosts(cluster, machines, forks, swept=progress.set)
        finally:
            ended.set()
            progress.set()

    try:
        yield pool
    except BaseException as error:
        if stopping is not None:
            stopping.set()
        ending = threading.Thread(target=end, daemon=True)
        ending.start()
        if isinstance(error, Exception):
            ending.join()
        while True:
            progress.clear()
            if ended.is_set() or not progress.wait(_HURRY):
                break
        raise
    pool.shutdown()


def sweep_hosts(
    cluster: str,
    machines: Mapping[str, Machine],
    forks: int,
    *,
    everything: bool = False,
    swept: Callable[[], object] = lambda: None,
) -> dict[str, str]:
    """Remove the temporary containers of this process, or with `everything` those of any; return a warning by host.

    `swept` is called after each host that answers.
    """
    word = "" if everything else token()
    with ThreadPoolExecutor(max_workers=max(1, forks)) as pool:
        done = pool.map(lambda machine: _sweep(machine, cluster, word, swept), machines.values())
        return {host: remainder for host, remainder in zip(machines, done, strict=True) if remainder}


def _sweep(machine: Machine, cluster: str, word: str, swept: Callable[[], object]) -> str:
    try:
        sweep(machine.engine, cluster, word)
    except HostError as error:
        return f"what was started there may run for some minutes more: {error.reason}"
    swept()
    return ""
