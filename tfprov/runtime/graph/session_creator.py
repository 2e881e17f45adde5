"""How a task gets a session whose model is ready, at the start and after every lost ps."""

import contextlib
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfprov.formats.checkpoint import step_of
from tfprov.runtime.graph.hooks import Ending
from tfprov.runtime.lazy_tensorflow import graph_api
from tfprov.runtime.resume import repair
from tfprov.runtime.signals import exit_now, leave

_PART = re.compile(r"^ *(?:\(\d+\) )?(?:ABORTED|UNAVAILABLE): From /job:", re.MULTILINE)
"""Only where a line begins: TensorFlow adds lines of its log, and these may tell of an earlier loss."""


def tells_of_a_loss(message: str) -> bool:
    """Whether a part of the step ended, on any task, with an error from which TensorFlow recovers."""
    return bool(_PART.search(message))


@contextlib.contextmanager
def recoverable() -> Iterator[None]:
    """Raise AbortedError instead of a CancelledError behind which is a loss; all other errors stay as they are."""
    errors = graph_api().errors
    try:
        yield
    except errors.CancelledError as error:
        if not tells_of_a_loss(error.message):
            raise
        raise errors.AbortedError(error.node_def, error.op, error.message) from error


def guarded(session: Any) -> Any:
    """Return the session, whose steps are `recoverable` now; threads of queues take theirs by `make_callable`."""
    make_callable = session.make_callable

    def make(*arguments: Any, **options: Any) -> Any:
        return recoverable()(make_callable(*arguments, **options))

    session.run, session.make_callable = recoverable()(session.run), make
    return session


POLL = 1
"""Seconds between two looks whether the chief is ready. TensorFlow's 30 leave short jobs to the chief alone."""


@dataclass(frozen=True)
class Place:
    """What a session must know of its task; `target` is empty and `device` None for a task that trains alone.

    `peers` are the tasks its session needs besides its own, as (`ps/0`, address); `filters` names their jobs.
    """

    name: str
    is_chief: bool
    replicas: int
    target: str
    device: str | None
    peers: Sequence[tuple[str, str]]
    filters: Sequence[str]
    checkpoint_dir: str


@dataclass
class Creator:
    """Creates the session; ends the task when that takes longer than `max_wait_secs`.

    TensorFlow's own creators let no worker choose how often it looks, and bound no chief's wait for a ps.
    """

    place: Place
    scaffold: Any
    config: Any
    max_wait_secs: float
    ending: Ending
    _manager: Any = field(default=None, init=False)

    def create_session(self) -> Any:
        """Return a session whose model is ready."""
        signals = self.ending.signals
        signals.orderly = False  # without a session there is nothing to save
        self._leave_if_over()
        # The wait happens inside TensorFlow, where nothing but the end of the process interrupts it.
        watchdog = threading.Timer(min(self.max_wait_secs, threading.TIMEOUT_MAX), self._give_up)
        watchdog.daemon = True
        watchdog.start()
        try:
            session = self._ready_session()
        finally:
            watchdog.cancel()
        signals.orderly = True
        return session

    def _leave_if_over(self) -> None:
        """A ps lost at the very end will not come back: the launcher stops it once the chief has left."""
        signals, name = self.ending.signals, self.place.name
        if signals.number:
            leave(f"{name} ended by {signals.name}: a ps was lost, so there is nothing to save", signals.code)
        if self.ending.near and not self.place.is_chief:
            leave(f"{name} ends: it was at step {self.ending.step}, near the last, and a ps has left", 0)

    def _ready_session(self) -> Any:
        errors = graph_api().errors
        self.scaffold.finalize()
        while True:
            try:
                with recoverable():
                    return guarded(self._prepare() if self.place.is_chief else self._wait())
            except (errors.UnavailableError, errors.AbortedError):
                time.sleep(POLL)

    def _prepare(self) -> Any:
        directory, scaffold = self.place.checkpoint_dir, self.scaffold
        newest = repair(directory)
        step = max(step_of(newest), 0) if newest else None
        self.ending.restored = step
        if step is not None and self.place.target and (session := self._kept(step)):
            sys.stderr.write(
                f"tfprov: {self.place.name} goes on at step {self.ending.restored}, which the ps have kept\n"
            )
            return session
        session = self._session_manager().prepare_session(
            self.place.target,
            saver=scaffold.saver,
            checkpoint_dir=directory,
            config=self._config(),
            init_op=scaffold.init_op,
            init_feed_dict=scaffold.init_feed_dict,
            init_fn=scaffold.init_fn,
        )
        if newest:
            sys.stderr.write(f"tfprov: {self.place.name} goes on from {directory}/{newest}\n")
        return session

    def _kept(self, saved: int) -> Any:
        """Return a session on the model that the ps hold, if it is all there and not behind the step `saved`, else None.

        So a chief that comes back undoes nothing of what the workers did without it.
        """
        v1 = graph_api()
        session = v1.Session(self.place.target, config=self._config())
        try:
            if session.run(self.scaffold.ready_for_local_init_op).size == 0:
                step = int(session.run(v1.train.get_global_step()))
                if step >= saved:
                    session.run(self.scaffold.local_init_op)
                    self.ending.restored = step
                    return session
        except v1.errors.OpError:
            session.close()
            raise
        session.close()
        return None

    def _wait(self) -> Any:
        return self._session_manager().wait_for_session(self.place.target, config=self._config())

    def _session_manager(self) -> Any:
        v1 = graph_api()
        self._manager = self._manager or v1.train.SessionManager(
            local_init_op=self.scaffold.local_init_op,
            local_init_feed_dict=self.scaffold.local_init_feed_dict,
            ready_op=self.scaffold.ready_op,
            ready_for_local_init_op=self.scaffold.ready_for_local_init_op,
            graph=v1.get_default_graph(),
            recovery_wait_secs=POLL,
        )
        return self._manager

    def _config(self) -> Any:
        """Without device filters a session waits for every other worker, and is lost with any of them."""
        config = graph_api().ConfigProto()
        if self.config is not None:
            config.CopyFrom(self.config)
        if self.place.device and not config.device_filters:
            config.device_filters.extend(self.place.filters)
        return config

    def _give_up(self) -> None:
        waited = f"error: {self.place.name}: no session after {self.max_wait_secs:g} s"
        silent = [f"{name} at {address}" for name, address in self.place.peers if not _answers(address)]
        why = f"no answer from {', '.join(silent)}" if silent else "the chief has not made the model ready"
        exit_now(f"{waited}: {why}", 1)


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
    except OSError:
        return False
    return True
