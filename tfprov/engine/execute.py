"""Executes a plan: independent actions in parallel, each action once, without decisions."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from tfprov.engine.checkpoints.resume import known_run, restoring, resuming
from tfprov.engine.concurrency import LOOK
from tfprov.engine.context import Context
from tfprov.engine.run_ids import new_run
from tfprov.errors import HangUp, TfprovError, combine_errors
from tfprov.model.plan import Action, ActionKind, Plan
from tfprov.model.state import Observation

DEFAULT_GRACE = 30.0
"""Seconds to stop a task that is not in the inventory any more, and so has no `stop_grace`."""


@dataclass
class Outcome:
    """The outcome of a plan: `failed` holds the errors by action id."""

    done: list[Action] = field(default_factory=list)
    failed: dict[str, TfprovError] = field(default_factory=dict)
    skipped: list[Action] = field(default_factory=list)

    def check(self) -> None:
        """Raise the errors, if there are any, together."""
        if self.failed:
            raise combine_errors(self.failed.values())


def current_run(context: Context, observation: Observation) -> str:
    """Return the id of the current training run, or a new id.

    It separates the checkpoints of different runs: step 2000 of yesterday is not step 2000 of today. A run stays with the
    chief's checkpoints: a chief that starts on another host begins a new one, unless it resumes from a gathered checkpoint.
    Raises the errors of `resuming`.
    """
    known = (resuming(context, observation) if context.resume else None) or known_run(context, observation)
    return known or context.new_run or new_run()


def execute(context: Context, plan: Plan, run: str = "") -> Outcome:
    """Carry out `plan`, whose starts are of `run`; an action that fails stops only those that need it.

    The first Ctrl-C lets running actions finish, starts no more, and is raised at the end; the second is raised at once.
    """
    outcome = Outcome()
    for data in context.data.values():
        data.allow()
    context.report.planned(plan.actions)
    waiting = _chief_after_ps(plan, context.cluster.chief.name) if context.resume else list(plan.actions)
    with _deliveries(context, plan), _pool(context.forks) as pool:
        interrupted = _Execution(context, waiting, run, outcome, pool).wait()
    outcome.failed = {action.id: outcome.failed[action.id] for action in plan.actions if action.id in outcome.failed}
    for action in waiting:
        outcome.skipped.append(action)
        context.report.skipped(action)
    if interrupted is not None:
        raise interrupted
    return outcome


@contextmanager
def _deliveries(context: Context, plan: Plan) -> Iterator[None]:
    """The context of all deliveries of `plan`, which can have things in common. A second Ctrl-C waits for none of them."""
    hosts = Counter(action.subject for action in plan.actions if action.kind == ActionKind.DELIVER)
    with ExitStack() as stack:
        for subject, number in hosts.items():
            stack.enter_context(context.artifacts[subject].delivering(number))
        try:
            yield
        except KeyboardInterrupt:
            stack.pop_all()
            raise


@contextmanager
def _pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Wait for all threads at the end, but not after a second Ctrl-C."""
    pool = ThreadPoolExecutor(max_workers=threads)
    leave = False
    try:
        yield pool
    except KeyboardInterrupt:
        leave = True
        raise
    finally:
        pool.shutdown(wait=not leave, cancel_futures=leave)


class SecondInterrupt(KeyboardInterrupt):
    """A second Ctrl-C: leave without waiting for anything."""


class _Execution:
    """Performs the actions in `waiting`, which keeps those that cannot be.

    A thread of its own starts and settles them: Ctrl-C is raised in the main thread, between any two of its steps. An
    action that was started there and not noted yet would be reported as skipped.
    """

    def __init__(
        self, context: Context, waiting: list[Action], run: str, outcome: Outcome, pool: ThreadPoolExecutor
    ) -> None:
        self.context, self.waiting, self.run, self.outcome, self.pool = context, waiting, run, outcome, pool
        self._ended: Future[None] = Future()
        self._stop: Future[None] = Future()
        """Done once no more actions may begin."""
        self._leave: Future[None] = Future()
        """Done once the running ones are not waited for either."""

    def wait(self) -> KeyboardInterrupt | None:
        """Wait for the end; return a Ctrl-C that came meanwhile. Raises SecondInterrupt."""
        thread = threading.Thread(target=self._coordinate, name="actions", daemon=True)
        interrupted: KeyboardInterrupt | None = None
        try:
            try:
                thread.start()
                self._result()
            except KeyboardInterrupt as interrupt:
                interrupted = interrupt
                if self.context.interrupted:
                    raise
                self._stop.set_result(None)
                self._ended.cancel()  # which only works if the thread has not begun
                self._result()
        except KeyboardInterrupt as second:  # also one between two of the lines above
            self._let_go()
            raise SecondInterrupt from second
        except HangUp:
            self._let_go()
            if not self._ended.cancel():
                while wait([self._ended], LOOK).not_done:
                    pass
            raise
        return interrupted

    def _result(self) -> None:
        while not self._ended.done():
            with suppress(TimeoutError, CancelledError):
                self._ended.exception(LOOK)
        if not self._ended.cancelled():
            self._ended.result()

    def _let_go(self) -> None:
        if not self._leave.done():
            self._leave.set_result(None)

    def _coordinate(self) -> None:
        if not self._ended.set_running_or_notify_cancel():
            return
        try:
            self._carry_out()
        except BaseException as error:
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    def _carry_out(self) -> None:
        running: dict[Future[None], Action] = {}
        done: set[str] = set()
        announced = False
        while (self.waiting or running) and not self._leave.done():
            if self._stop.done() and not announced:
                announced = True
                self.context.report.note("interrupted: finishing what has begun (Ctrl-C again to leave at once)")
                for data in self.context.data.values():  # fetches take long, and can be continued
                    data.cut()
            done.update(action.id for action in self.outcome.done[len(done) :])
            # Never more than there are threads: what the pool has taken is carried out, also after Ctrl-C.
            for action in list(islice(_ready(self.waiting, done), self.context.forks - len(running))):
                if self._stop.done() or self._leave.done():
                    break
                self.context.report.started(action)
                running[self.pool.submit(_perform, self.context, action, self.run)] = action
                self.waiting.remove(action)
            if not running:
                break
            wake = [self._leave] if announced else [self._leave, self._stop]
            finished, _ = wait([*running, *wake], return_when=FIRST_COMPLETED)
            for future in finished & running.keys():
                self._settle(running.pop(future), future)

    def _settle(self, action: Action, future: "Future[None]") -> None:
        error = future.exception()
        if error is None:
            self.outcome.done.append(action)
            self.context.report.done(action)
        elif isinstance(error, TfprovError):
            self.outcome.failed[action.id] = error
            self.context.report.failed(action, error)
        else:
            raise error


def _ready(waiting: list[Action], done: set[str]) -> Iterator[Action]:
    return (action for action in waiting if done.issuperset(action.needs))


def _chief_after_ps(plan: Plan, chief: str) -> list[Action]:
    """Return the actions with the chief's start after those of its ps.

    Which files are restored to a ps depends on the chief's own files, before any are restored to the chief.
    """
    of_ps = tuple(
        action.id for action in plan.actions if action.kind == ActionKind.START and action.subject.startswith("ps/")
    )
    return [
        replace(action, needs=(*action.needs, *of_ps))
        if (action.kind, action.subject) == (ActionKind.START, chief)
        else action
        for action in plan.actions
    ]


def _perform(context: Context, action: Action, run: str) -> None:
    _VERBS[action.kind](context, action, run)


def _build(context: Context, action: Action, _run: str) -> None:
    context.artifacts[action.subject].build()


def _deliver(context: Context, action: Action, _run: str) -> None:
    context.artifacts[action.subject].deliver(action.host)


def _fetch(context: Context, action: Action, _run: str) -> None:
    context.data[action.subject].fetch(action.host, context.report)


def _stop(context: Context, action: Action, _run: str) -> None:
    container = context.container(action.subject)
    context.runtimes[action.host].stop(action.subject, container.stop_grace if container else DEFAULT_GRACE)


def _remove(context: Context, action: Action, _run: str) -> None:
    if context.before_remove is not None:
        context.before_remove(action.subject, action.host)
    context.runtimes[action.host].remove(action.subject)


def _start(context: Context, action: Action, run: str) -> None:
    container = context.container(action.subject)
    assert container is not None, "a plan starts only what is wanted"
    if context.before_remove is not None:  # the start removes an earlier container
        context.before_remove(action.subject, action.host)
    with restoring(context, container.task, run) as files:
        context.runtimes[action.host].start(container, run, files, partial(context.report.transferred, action.subject))


_VERBS: Mapping[ActionKind, Callable[[Context, Action, str], None]] = {
    ActionKind.BUILD: _build,
    ActionKind.DELIVER: _deliver,
    ActionKind.FETCH: _fetch,
    ActionKind.STOP: _stop,
    ActionKind.REMOVE: _remove,
    ActionKind.START: _start,
}
