"""The text of the live line: actions and bytes done of how many, their rate, and the time left."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from tfprov.formats.event_file import EventProgress
from tfprov.model.plan import Action, ActionKind
from tfprov.planning.plan_text import format_size, format_span, join_names

_DOING = {
    "build": "building",
    "deliver": "delivering",
    "fetch": "fetching",
    "start": "starting",
    "stop": "stopping",
    "remove": "removing",
}
MOVES = {ActionKind.DELIVER: "sent", ActionKind.FETCH: "fetched"}
"""Actions that move bytes, and the verb for the bytes."""
_NAMED = 3
"""How many subjects the line names; it counts the rest."""
_WINDOW = 5.0
"""Seconds over which a transfer's rate is averaged: steady, and still shows a connection that slows down."""
_SLOW = 1.0
"""Seconds after which the line shows the elapsed time."""


@dataclass
class Transfer:
    """Several transfers at the same time, by name: a host, or a file."""

    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Bytes transferred and total bytes of each; a total of 0 is unknown."""
    moved: int = 0
    """Bytes of finished transfers."""
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    def at(self, name: str, sent: int, total: int, now: float) -> None:
        """Record the progress of one transfer."""
        self.sizes[name] = sent, total
        self._sample(now)

    def done(self, name: str) -> int:
        """Finish one transfer, and return its bytes."""
        sent, _ = self.sizes.pop(name, (0, 0))
        self.moved += sent
        return sent

    def _sample(self, now: float) -> None:
        self._samples.append((now, self.moved + sum(sent for sent, _ in self.sizes.values())))
        while len(self._samples) > 2 and now - self._samples[1][0] >= _WINDOW:
            self._samples.popleft()

    def text(self, count: int, finished: int, now: float) -> str:
        """Return the share, the rate and the time left, as far as they are known.

        `finished` of `count` transfers are done; those that have not begun are assumed to have the mean size.
        """
        sent = sum(sent for sent, _ in self.sizes.values())
        totals = [total for _, total in self.sizes.values() if total]
        if not totals:
            return format_size(sent) if sent else ""
        left = max(0, count - finished - len(totals)) * sum(totals) / len(totals) + sum(totals) - sent
        whole = self.moved + sent + left
        parts = [f"{100 * (self.moved + sent) / whole:.0f}% of {format_size(whole)}"]
        rate = self._rate(now)
        if rate:
            parts += [f"{format_size(rate)}/s", f"ETA {format_span(left / rate)}"]
        return " · ".join(parts)

    def _rate(self, now: float) -> float:
        if not self._samples:
            return 0.0
        (begin, before), (_, after) = self._samples[0], self._samples[-1]
        return (after - before) / (now - begin) if now - begin >= _SLOW else 0.0


@dataclass
class UnderWay:
    """The actions of a plan in progress, and what the run waits for between them. `now` is in seconds."""

    planned: Counter[str] = field(default_factory=Counter)
    finished: Counter[str] = field(default_factory=Counter)
    running: dict[str, tuple[Action, float]] = field(default_factory=dict)
    transfers: dict[str, Transfer] = field(default_factory=dict)
    awaited: tuple[str, float] | None = None
    training: tuple[EventProgress, int | None] | None = None
    idle: str = ""
    """What is awaited while nothing else is known to be: shown once nothing has happened for a second."""
    idle_since: float = 0.0
    trained_since: float | None = None
    lost: int = 0
    """Steps that were trained twice, after the training went back to a checkpoint."""
    unfinished: dict[str, str] = field(default_factory=dict)
    """Lines that tasks are printing, such as progress bars, by task; the one that changed last is the last."""

    def plan(self, actions: Iterable[Action]) -> None:
        """Reset the counts for these actions."""
        self.planned, self.finished = Counter(action.kind for action in actions), Counter()
        self.transfers = {}
        self.awaited = None

    def begin(self, action: Action, now: float) -> None:
        """An action begins."""
        self.running[action.id] = action, now

    def end(self, action: Action) -> int:
        """An action ended; return the bytes that it moved."""
        self.running.pop(action.id, None)
        self.finished[action.kind] += 1
        if action.kind in MOVES:
            return self._transfer(action.kind).done(action.host)
        if not any(one.kind == action.kind for one, _ in self.running.values()):
            self.transfers.pop(action.kind, None)
        return 0

    def moved(self, name: str, sent: int, total: int, now: float) -> None:
        """Record that `sent` of `total` bytes of `name` were transferred, by a running action or by anything else."""
        kind = next((action.kind for action, _ in self.running.values() if _moves(action, name)), "")
        self._transfer(kind).at(name, sent, total, now)

    def _transfer(self, kind: str) -> Transfer:
        return self.transfers.setdefault(kind, Transfer())

    def await_(self, what: str, now: float) -> None:
        """Set what the run waits for; an empty text ends the wait."""
        if self.awaited is None or self.awaited[0] != what:
            self.awaited = (what, now) if what else None
            self.transfers.pop("", None)  # those bytes belonged to the previous wait

    def redraw(self, task: str, line: str) -> None:
        """Set the unfinished line of a task; an empty text ends it."""
        self.unfinished.pop(task, None)
        if line:
            self.unfinished[task] = line

    def text(self, now: float) -> str:
        """Return the line; empty if nothing is in progress."""
        task = next(reversed(self.unfinished), None)
        bar = "" if task is None else f"{task} | {self.unfinished[task].strip()}"
        if text := " · ".join(filter(None, [self._activity(now), bar])):
            return text
        waits = self.idle and now - self.idle_since >= _SLOW
        return f"{self.idle} · {_elapsed(self.idle_since, now)}" if waits else ""

    def _activity(self, now: float) -> str:
        kinds = dict.fromkeys(action.kind for action, _ in self.running.values())
        if kinds:
            return "; ".join(self._kind(kind, now) for kind in kinds)
        if self.awaited is not None:
            what, begin = self.awaited
            moved = self.transfers[""].text(1, 0, now) if "" in self.transfers else ""
            return " · ".join(filter(None, [what, moved, _elapsed(begin, now)]))
        if self.training is None:
            return ""
        since = "" if self.trained_since is None else _elapsed(self.trained_since, now)
        lost = f"{self.lost:,} steps lost" if self.lost else ""
        return " · ".join(filter(None, [progress_line(*self.training), since, lost]))

    def advance(self, progress: EventProgress, steps: int | None, now: float) -> bool:
        """Record the chief's progress; return whether it is new."""
        changed = self.training != (progress, steps)
        self.training = progress, steps
        self.trained_since = now if self.trained_since is None else self.trained_since
        return changed

    def _kind(self, kind: str, now: float) -> str:
        running = [(action, begin) for action, begin in self.running.values() if action.kind == kind]
        finished = self.finished[kind]
        count = max(self.planned[kind], finished + len(running))
        many = f" {finished}/{count}" if count > 1 else ""
        parts = [f"{_DOING.get(kind, kind)}{many}{_names(kind, [action for action, _ in running])}"]
        if kind in MOVES:
            parts.append(self._transfer(kind).text(count, finished, now))
        elif kind in self.transfers:  # few of these move bytes, and those are known once they do
            parts.append(self.transfers[kind].text(0, 0, now))
        parts.append(_elapsed(min(begin for _, begin in running), now))
        return " · ".join(filter(None, parts))


def _moves(action: Action, name: str) -> bool:
    """Whether an action moves `name`: its host, the task it starts, or the image it builds."""
    return (
        action.kind == ActionKind.BUILD or (action.subject if action.kind == ActionKind.START else action.host) == name
    )


def _names(kind: str, actions: list[Action]) -> str:
    """Return the names that the line shows: hosts of transfers, tasks of other actions."""
    names = list(dict.fromkeys(action.host if kind in MOVES else action.subject for action in actions))
    return f"{' to ' if kind in MOVES else ' '}{join_names(names, _NAMED)}"


def _elapsed(begin: float, now: float) -> str:
    return format_span(now - begin) if now - begin >= _SLOW else ""


def progress_line(progress: EventProgress, steps: int | None = None, *, runs: bool = True) -> str:
    """Return the chief's progress in one line; `steps` is the training's number of steps, None if unknown.

    The time left is shown only while the chief `runs`.
    """
    rate = progress.steps_per_second
    known = steps is not None and steps > 0
    parts = [f"step {progress.step:,}" + (f" of {steps:,}" if known else "")]
    if steps is not None and known:
        parts.append(f"{100 * min(progress.step / steps, 1):.1f}%")
    if rate is not None:
        parts.append(f"{rate:.1f} steps/s")
    if progress.loss is not None:
        parts.append(f"loss {progress.loss:.6g}")
    if runs and (left := progress.seconds_left(steps)) is not None:
        parts.append(f"ETA {format_span(left)}")
    return " · ".join(parts)
