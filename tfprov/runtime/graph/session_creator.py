"""Create the session of a task, at the start and after every lost ps, once its model is ready."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfprov.formats.checkpoint import step_of
from tfprov.runtime.graph.hooks import StopHook
from tfprov.runtime.lazy_tensorflow import graph_api
from tfprov.runtime.peer_watch import unreachable_peers
from tfprov.runtime.resume import repair
from tfprov.runtime.signals import exit_now, leave

_LOSS_PATTERN = re.compile(r"^ *(?:\(\d+\) )?(?:ABORTED|UNAVAILABLE): From /job:", re.MULTILINE)
"""Matches at line starts only: TensorFlow appends lines of its log, which may report an earlier loss."""


def is_task_loss(message: str) -> bool:
    """Whether `message` reports that a part of the step failed, on any task, with an error TensorFlow recovers from."""
    return bool(_LOSS_PATTERN.search(message))


@contextlib.contextmanager
def recoverable() -> Iterator[None]:
    """Turn a CancelledError that a lost task caused into AbortedError; other errors pass unchanged."""
    errors = graph_api().errors
    try:
        yield
    except errors.CancelledError as error:
        if not is_task_loss(error.message):
            raise
        raise errors.AbortedError(error.node_def, error.op, error.message) from error


CLOSE_TIMEOUT = 10.0
"""Seconds for a session to be closed: TensorFlow waits without limit for the part of a step that a lost ps never ends."""


def call_within(seconds: float, function: Callable[[], object]) -> None:
    """Call `function`; after `seconds` leave it to its thread. Raises its error when it has one in time."""
    errors: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call, name="tfprov-close", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]


def make_recoverable(session: Any) -> Any:
    """Wrap the session's steps in `recoverable`, and limit its end; queue threads run theirs through `make_callable`."""
    make_callable = session.make_callable

    def make_recoverable_callable(*arguments: Any, **options: Any) -> Any:
        return recoverable()(make_callable(*arguments, **options))

    def close() -> None:
        del session.close  # TensorFlow closes it again when it is deleted, where no thread may be started any more
        if sys.is_finalizing():
            session.close()
        else:
            call_within(CLOSE_TIMEOUT, session.close)

    session.run, session.make_callable = recoverable()(session.run), make_recoverable_callable
    session.close = close
    return session


POLL = 1
"""Seconds between two checks whether the chief is ready. With TensorFlow's 30 the chief does short jobs alone."""


@dataclass(frozen=True)
class SessionContext:
    """A task as its session needs it; `target` is empty and `device` None for a task that trains alone.

    `peers` are the other tasks the session needs, as (`ps/0`, address); `filters` are the device filters for their jobs.
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
class SessionCreator:
    """Creates the session; ends the task when that takes longer than `max_wait_secs`.

    TensorFlow's own creators fix a worker's polling interval, and let a chief wait for a ps without limit.
    """

    context: SessionContext
    scaffold: Any
    config: Any
    max_wait_secs: float
    stop_hook: StopHook
    _manager: Any = field(default=None, init=False)
    _had_session: bool = field(default=False, init=False)

    def create_session(self) -> Any:
        """Return a session whose model is ready."""
        signals = self.stop_hook.signals
        signals.orderly = False  # nothing to save without a session
        if self._had_session:
            self._leave_if_finished()
        # The wait happens inside TensorFlow, where only the end of the process interrupts it.
        over = threading.Event()
        watchdog = threading.Timer(min(self.max_wait_secs, threading.TIMEOUT_MAX), self._give_up, (over,))
        watchdog.daemon = True
        watchdog.start()
        try:
            session = self._ready_session()
        finally:
            over.set()
            watchdog.cancel()
        signals.orderly = self._had_session = True
        return session

    def _leave_if_finished(self) -> None:
        """Leave when a ps was lost at the end: the launcher stops it once the chief has left."""
        signals, name = self.stop_hook.signals, self.context.name
        if signals.number:
            leave(f"{name} ended by {signals.name}: a ps was lost, so there is nothing to save", signals.code)
        if self.stop_hook.near and not self.context.is_chief:
            leave(f"{name} ends: it was at step {self.stop_hook.step}, near the last, and a ps has left", 0)

    def _ready_session(self) -> Any:
        errors = graph_api().errors
        self.scaffold.finalize()
        while True:
            try:
                with recoverable():
                    return make_recoverable(self._chief_session() if self.context.is_chief else self._worker_session())
            except (errors.UnavailableError, errors.AbortedError):
                time.sleep(POLL)

    def _chief_session(self) -> Any:
        directory, scaffold = self.context.checkpoint_dir, self.scaffold
        newest = repair(directory)
        step = max(step_of(newest), 0) if newest else None
        self.stop_hook.restored = step
        if step is not None and self.context.target and (session := self._session_on_kept_model(step)):
            sys.stderr.write(
                f"tfprov: {self.context.name} goes on at step {self.stop_hook.restored}, which the ps have kept\n"
            )
            return session
        session = self._session_manager().prepare_session(
            self.context.target,
            saver=scaffold.saver,
            checkpoint_dir=directory,
            config=self._config(),
            init_op=scaffold.init_op,
            init_feed_dict=scaffold.init_feed_dict,
            init_fn=scaffold.init_fn,
        )
        if newest:
            sys.stderr.write(f"tfprov: {self.context.name} goes on from {directory}/{newest}\n")
        return session

    def _session_on_kept_model(self, saved_step: int) -> Any:
        """Return a session on the model that the ps hold, if it is complete and not behind `saved_step`, else None.

        So a chief that was restarted keeps the steps the workers took without it.
        """
        v1 = graph_api()
        session = v1.Session(self.context.target, config=self._config())
        try:
            if session.run(self.scaffold.ready_for_local_init_op).size == 0:
                step = int(session.run(v1.train.get_global_step()))
                if step >= saved_step:
                    session.run(self.scaffold.local_init_op)
                    self.stop_hook.restored = step
                    # As TensorFlow does when it restores one: the saver deletes the oldest of those that it knows.
                    listed = v1.train.get_checkpoint_state(self.context.checkpoint_dir)
                    if listed and self.scaffold.saver:
                        self.scaffold.saver.recover_last_checkpoints(listed.all_model_checkpoint_paths)
                    return session
        except v1.errors.OpError:
            session.close()
            raise
        session.close()
        return None

    def _worker_session(self) -> Any:
        return self._session_manager().wait_for_session(self.context.target, config=self._config())

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
        """Add device filters: without them a session waits for every other worker, and fails with any of them."""
        config = graph_api().ConfigProto()
        if self.config is not None:
            config.CopyFrom(self.config)
        if self.context.device and not config.device_filters:
            config.device_filters.extend(self.context.filters)
        return config

    def _give_up(self, over: threading.Event) -> None:
        waited = f"error: {self.context.name}: no session after {self.max_wait_secs:g} s"
        silent = unreachable_peers(dict(self.context.peers))
        if over.is_set():  # the session came while they were asked
            return
        if silent:
            exit_now(f"{waited}: no answer from {', '.join(silent)}", 1)
        reason = "all ps answer" if self.context.is_chief else "the chief has not made the model ready"
        exit_now(f"{waited}: {reason}", 1)
