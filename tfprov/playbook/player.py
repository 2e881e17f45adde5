"""Plays one play: its batches one after the other, all steps on a batch before the next begins."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tfprov.engine.context import Context
from tfprov.engine.execute import SecondInterrupt
from tfprov.engine.lock.cluster_lock import ClusterLock
from tfprov.engine.monitoring.follow import follow
from tfprov.engine.observe import missing, observe
from tfprov.engine.rollback import take_back
from tfprov.errors import (
    CombinedError,
    HostError,
    InvalidInput,
    Problem,
    TaskFailed,
    TfprovError,
    Usage,
    combine_errors,
)
from tfprov.inventory.host_patterns import match_hosts
from tfprov.model.playbook import Command, Play, Step, WaitFor
from tfprov.model.state import Observation
from tfprov.planning.name_ranges import host_names
from tfprov.planning.plan_text import format_count
from tfprov.playbook.batches import is_exceeded, joined, moves, split
from tfprov.playbook.scheduled_gather import scheduled_gather
from tfprov.playbook.steps import RUN, check


@dataclass(frozen=True)
class PlayOptions:
    """How to play. `verb` is shown to other runs by the lock; `discard` removes checkpoints that were not gathered.

    With `partial`, what did start is kept when something else did not.
    """

    verb: str = "play"
    tags: frozenset[str] = field(default_factory=frozenset)
    check: bool = False
    discard: bool = False
    partial: bool = False


@dataclass
class _Batch:
    """Hosts that play all steps of a play together. `context` is limited to those of them that have not failed.

    `percentage` may fail. `before` was observed just before the first start. `trained`: it was followed to its end.
    """

    whole: Context
    context: Context
    hosts: Sequence[str]
    percentage: float | None
    before: Observation | None = None
    failed: set[str] = field(default_factory=set)
    trained: bool = False

    def drop(self, hosts: Iterable[str]) -> None:
        """Continue without `hosts`, which failed."""
        self.failed.update(hosts)
        self.context = self.whole.limited(host for host in self.hosts if host not in self.failed)

    def failed_by(self, error: TfprovError) -> set[str]:
        """Return the hosts of the batch that `error` is about; none if it is also about something else."""
        parts = error.errors if isinstance(error, CombinedError) else (error,)
        hosts = {self.host_of(part) for part in parts}
        return {host for host in hosts if host is not None} if hosts <= set(self.hosts) - self.failed else set()

    def host_of(self, error: TfprovError) -> str | None:
        """Return the host on which something failed; None if the error is not about a host."""
        if isinstance(error, HostError):
            return error.host
        container = self.whole.container(error.task) if isinstance(error, TaskFailed) else None
        return container.task.host if container is not None else None

    def reachable(self, before: Observation) -> Context:
        """Return the context to take back what was started since `before`: the hosts that answered then."""
        if self.percentage is None:
            return self.context
        return self.whole.limited(host for host in self.hosts if host not in before.unreachable)

    def ends_start(self, step: Step) -> bool:
        """Whether a failure of `step` takes back what was started; that of a command does in a play with batches."""
        return _starts(step) or (bool(self.hosts) and isinstance(step.arguments, Command) and not self.trained)


@dataclass
class Player:
    """Plays one play after the other, and holds the cluster's lock while something may change.

    It lets the lock go while the training just runs, so that `tfprov down` and `tfprov gather` work elsewhere; it `trains`
    since then, and `drains` once a step failed or Ctrl-C came. `tolerated` are errors of hosts that `max_fail_percentage`
    went on without; later plays leave these, `failed`, out. `built` is what a check reported as to be built, for them.
    """

    context: Context
    options: PlayOptions
    lock: ClusterLock
    interrupted: bool = False
    drains: bool = False
    trains: bool = False
    followed: bool = False
    failed: set[str] = field(default_factory=set)
    tolerated: list[BaseException] = field(default_factory=list)
    built: set[str] = field(default_factory=set)

    def play(self, one: Play) -> Iterator[BaseException]:
        """Run the steps of a play and yield its first error, or all errors of an `always` play."""
        chosen = any(_tagged(self.options.tags, one.tags | step.tags) for step in one.steps)
        if not chosen or not self.context.cluster.has_roles(one.when):
            return
        context = replace(hosts_of(self.context, one), tolerant=one.always, partial=self.options.partial)
        if self.failed and not one.always:
            context = context.limited(host for host in context.runtimes if host not in self.failed)
        batches, known = self.batches(context, one)
        for number, hosts in enumerate(batches, start=1):
            if one.serial:
                self.context.report.note(f"batch {number} of {len(batches)}: {host_names(hosts)}")
            whole = replace(context, known=known)
            limited = whole.limited(hosts) if _needs_hosts(one) else whole
            errors = list(self.play_batch(one, _Batch(whole, limited, hosts, one.max_fail_percentage)))
            yield from errors
            if errors and not one.always:
                self.note_rest([host for later in batches[number:] for host in later])
                return
            if number < len(batches):
                known = observe(limited, tolerant=True)
        if one.always and (lost := missing(context)):
            yield combine_errors(lost)

    def batches(self, context: Context, one: Play) -> tuple[Sequence[Sequence[str]], Observation | None]:
        """Return the hosts of each batch, one empty batch for a play that needs no hosts; of several, an observation, too.

        A batch asks its own hosts alone: all hosts at each step of each batch would grow with the square of the hosts.
        """
        if not _needs_hosts(one):
            return [()], None
        batches = list(split(_in_order(context), one.serial))
        if len(batches) < 2:
            return batches, None
        known, starts = observe(context, tolerant=True), any(step.module == "start" for step in one.steps)
        return joined(batches, moves(context.wanted, known)) if starts else batches, known

    def note_rest(self, hosts: Sequence[str]) -> None:
        """Note the hosts of the batches that are not played."""
        if hosts:
            self.context.report.note(f"the play stops before {format_count(len(hosts), 'host')}: {host_names(hosts)}")

    def play_batch(self, one: Play, batch: _Batch) -> Iterator[BaseException]:
        """Run the steps of a play on a batch and yield its first error, or all errors of an `always` play."""
        for step in one.steps:
            try:  # a signal may come at any moment, and an `always` play is played after it all the same
                tagged = _tagged(self.options.tags, one.tags | step.tags)
                if not (tagged and batch.context.cluster.has_roles(step.when)):
                    continue
                self.update_lock(batch.context, step)
                self.run_step(batch, step)
                batch.trained = batch.trained or _follows(step)
                self.followed = self.followed or batch.trained
            except (TfprovError, KeyboardInterrupt) as error:
                yield self.report_interrupt(error)
                if batch.before is not None and isinstance(error, TfprovError) and batch.ends_start(step):
                    yield from self.take_back(batch.reachable(batch.before), batch.before)
                if not one.always:
                    return

    def run_step(self, batch: _Batch, step: Step) -> None:
        """Run a step; with `max_fail_percentage` again without the hosts that failed, as steps do only what is missing."""
        if batch.percentage is None or _follows(step) or step.module == "gather":
            self.attempt(batch, step)
        elif isinstance(step.arguments, Command) and not self.options.check:
            self.run_command(batch, step)
        else:
            self.tolerating(batch, step, lambda: self.attempt(batch, step))

    def tolerating(self, batch: _Batch, step: Step, action: Callable[[], None]) -> None:
        """Repeat `action` without the hosts that failed until it succeeds; raise its error when too many have failed."""
        while True:
            try:
                action()
            except TfprovError as error:
                self.tolerate(batch, step, error)
            else:
                return

    def run_command(self, batch: _Batch, step: Step) -> None:
        """Run a command once on each host of a batch, also after it has failed on another."""
        seen = observe(batch.context, tolerant=True)  # also without the chief's host, which other steps need
        if lost := [seen.unreachable[host] for host in batch.hosts if host in seen.unreachable.keys() - batch.failed]:
            self.tolerate(batch, step, combine_errors(lost))
        errors = []
        for host in (host for host in batch.hosts if host not in batch.failed):
            try:
                self.run(replace(batch.context.limited({host}), seen=seen), step)
            except HostError as error:
                errors.append(error)
        if errors:
            self.tolerate(batch, step, combine_errors(errors))

    def tolerate(self, batch: _Batch, step: Step, error: TfprovError) -> None:
        """Continue without the hosts of `error`, after their starts were taken back; raise it if too many have failed."""
        hosts = batch.failed_by(error)
        if not hosts:
            raise error
        failed, size, limit = len(batch.failed | hosts), len(batch.hosts), batch.percentage or 0.0
        if is_exceeded(failed, size, limit):
            what = f"{failed} of {format_count(size, 'host')} failed, and max_fail_percentage is {limit:g}"
            self.context.report.note(f"{what}: {host_names(batch.failed | hosts)}")
            raise error
        batch.drop(hosts)
        self.failed |= hosts
        self.tolerated.append(error)
        self.context.report.note(f"{error}\ncontinuing without {host_names(hosts)}")
        if batch.before is not None and batch.ends_start(step):
            try:  # Ctrl-C ends the play: the batch that called this reports it
                self.lock.take(tolerant=True)
                take_back(batch.whole.limited(hosts), batch.before)
            except TfprovError as failure:
                self.tolerated.append(failure)

    def attempt(self, batch: _Batch, step: Step) -> None:
        """Run a step on the hosts of a batch that have not failed."""
        if batch.before is None and step.module == "start" and not (self.options.partial or self.options.check):
            batch.before = observe(batch.context)
            self.run(replace(batch.context, seen=batch.before), step)
        else:
            self.run(replace(batch.context, followed=self.followed, interrupted=self.interrupted), step)

    def report_interrupt(self, error: TfprovError | KeyboardInterrupt) -> BaseException:
        """Return the error, unless it is the second Ctrl-C, which leaves at once."""
        self.drains = True
        if isinstance(error, KeyboardInterrupt):
            if self.interrupted or isinstance(error, SecondInterrupt):
                raise error
            self.interrupted = True
            self.context.report.note("interrupted: Ctrl-C again leaves at once")
        return error

    def update_lock(self, context: Context, step: Step) -> None:
        """Hold the lock before a step that changes something, and let it go before one that just follows."""
        if self.options.check:
            return
        if not isinstance(step.arguments, WaitFor) or (step.arguments.condition == "serving" and self.lock.is_held):
            self.lock.take(tolerant=context.tolerant, patient=self.trains)
        elif step.arguments.condition == "done":
            self.lock.free()

    def run(self, context: Context, step: Step) -> None:
        """Run a step, or with `check` report what it would do."""
        if self.options.check:
            check(context, step, self.built)
        elif _follows(step) and isinstance(step.arguments, WaitFor):
            self.trains = True
            follow(replace(context, known=None), step.arguments.timeout, periodic=scheduled_gather(context))
        else:
            RUN[step.module](context, step.arguments, self.options.discard)

    def take_back(self, context: Context, before: Observation) -> Iterator[BaseException]:
        """Take back what the play has started; yield the errors of that."""
        try:
            self.lock.take(tolerant=True)
            take_back(context, before)
        except (TfprovError, KeyboardInterrupt) as error:
            yield self.report_interrupt(error)


def _starts(step: Step) -> bool:
    return step.module == "start" or (isinstance(step.arguments, WaitFor) and step.arguments.condition == "serving")


def _follows(step: Step) -> bool:
    return isinstance(step.arguments, WaitFor) and step.arguments.condition == "done"


def hosts_of(context: Context, one: Play) -> Context:
    """Return the context for the hosts of a play; `all` is every host there is, also one that left the inventory."""
    if one.hosts == "all":
        return context
    try:
        return context.limited(match_hosts(context.inventory, one.hosts))
    except Usage as error:
        raise InvalidInput([Problem(one.at, str(error))]) from None


def _tagged(wanted: frozenset[str], tags: frozenset[str]) -> bool:
    return not wanted or bool(wanted & tags) or "always" in tags


def _needs_hosts(one: Play) -> bool:
    """Whether a play has batches, or counts failed hosts."""
    return bool(one.serial) or one.max_fail_percentage is not None


def _in_order(context: Context) -> list[str]:
    """Return the hosts of `context` in the inventory's order, those that left it last."""
    known = [host for host in match_hosts(context.inventory, "all") if host in context.runtimes]
    return [host for host in dict.fromkeys([*known, *context.runtimes]) if context.allows(host)]
