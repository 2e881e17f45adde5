"""What is under way, in one line: how many of how many, how fast, and how long it still takes."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from tfprov.formats.event_file import Progress
from tfprov.model.plan import Action, ActionKind
from tfprov.planning.plan_text import format_size, join_names

_DOING = {
    "build": "building",
    "deliver": "delivering",
    "fetch": "fetching",
    "start": "starting",
    "stop": "stopping",
    "remove": "removing",
}
MOVES = {ActionKind.DELIVER: "sent", ActionKind.FETCH: "fetched"}
"""Actions that move bytes, and what is said of the bytes."""
_NAMED = 3
"""Subjects that are named; of more than these the line says how many."""
_WINDOW = 5.0
"""Seconds over which the rate of a transfer is taken: enough to be steady, and few enough to see a line that gets slow."""
_SLOW = 1.0
"""Seconds after which the line says how long it has taken so far."""


@dataclass
class Transfer:
    """Bytes that are moved by several at once, each under a name of its own: a host, or a file."""

    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """What has come and what there is of each, in bytes; 0 where nobody knows how much there is."""
    moved: int = 0
    """Bytes of those that are done."""
    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    def at(self, name: str, sent: int, total: int, now: float) -> None:
        """Note how far one of them is."""
        self.sizes[name] = sent, total
        self._sample(now)

    def done(self, name: str) -> int:
        """Forget one that is done, and return its bytes."""
        sent, _ = self.sizes.pop(name, (0, 0))
        self.moved += sent
        return sent

    def _sample(self, now: float) -> None:
        self._samples.append((now, self.moved + sum(sent for sent, _ in self.sizes.values())))
        while len(self._samples) > 2 and now - self._samples[1][0] >= _WINDOW:
            self._samples.popleft()

    def text(self, count: int, finished: int, now: float) -> str:
        """Return the share, the rate and the time that is left, as far as they are known.

        `count` are to be moved and `finished` of them are there: of those that have not begun the size is taken to be the
        mean of the others.
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
            parts += [f"{format_size(rate)}/s", f"ETA {duration(left / rate)}"]
        return " · ".join(parts)

    def _rate(self, now: float) -> float:
        if not self._samples:
            return 0.0
        (begin, before), (_, after) = self._samples[0], self._samples[-1]
        return (after - before) / (now - begin) if now - begin >= _SLOW else 0.0


@dataclass
class UnderWay:
    """The actions of a plan while they are carried out, and what is waited for between them. `now` is in seconds."""

    planned: Counter[str] = field(default_factory=Counter)
    finished: Counter[str] = field(default_factory=Counter)
    running: dict[str, tuple[Action, float]] = field(default_factory=dict)
    transfers: dict[str, Transfer] = field(default_factory=dict)
    awaited: tuple[str, float] | None = None
    training: tuple[Progress, int | None] | None = None

    def plan(self, actions: Iterable[Action]) -> None:
        """Begin to count anew: these are to be carried out."""
        self.planned, self.finished = Counter(action.kind for action in actions), Counter()
        self.transfers = {}
        self.awaited = None

    def begin(self, action: Action, now: float) -> None:
        """An action begins."""
        self.running[action.id] = action, now

    def end(self, action: Action) -> int:
        """An action has ended; return the bytes that it moved."""
        self.running.pop(action.id, None)
        self.finished[action.kind] += 1
        if action.kind in MOVES:
            return self._transfer(action.kind).done(action.host)
        if not any(one.kind == action.kind for one, _ in self.running.values()):
            self.transfers.pop(action.kind, None)
        return 0

    def moved(self, name: str, sent: int, total: int, now: float) -> None:
        """Of what is named, `sent` of `total` bytes have come: of what an action moves that runs, or of anything else."""
        kind = next((action.kind for action, _ in self.running.values() if _moves(action, name)), "")
        self._transfer(kind).at(name, sent, total, now)

    def _transfer(self, kind: str) -> Transfer:
        return self.transfers.setdefault(kind, Transfer())

    def await_(self, what: str, now: float) -> None:
        """What is waited for from now on; empty for nothing."""
        if self.awaited is None or self.awaited[0] != what:
            self.awaited = (what, now) if what else None
            self.transfers.pop("", None)  # those bytes were of what was waited for before

    def text(self, now: float) -> str:
        """Return the line; empty where nothing is under way."""
        kinds = dict.fromkeys(action.kind for action, _ in self.running.values())
        if kinds:
            return "; ".join(self._kind(kind, now) for kind in kinds)
        if self.awaited is not None:
            what, begin = self.awaited
            moved = self.transfers[""].text(1, 0, now) if "" in self.transfers else ""
            return " · ".join(filter(None, [what, moved, _elapsed(begin, now)]))
        return progress_line(*self.training) if self.training is not None else ""

    def _kind(self, kind: str, now: float) -> str:
        running = [(action, begin) for action, begin in self.running.values() if action.kind == kind]
        finished = self.finished[kind]
        count = max(self.planned[kind], finished + len(running))
        many = f" {finished}/{count}" if count > 1 else ""
        parts = [f"{_DOING.get(kind, kind)}{many}{_names(kind, [action for action, _ in running])}"]
        if kind in MOVES:
            parts.append(self._transfer(kind).text(count, finished, now))
        elif kind in self.transfers:  # a few of these have something to move, and those are known once they do
            parts.append(self.transfers[kind].text(0, 0, now))
        parts.append(_elapsed(min(begin for _, begin in running), now))
        return " · ".join(filter(None, parts))


def _moves(action: Action, name: str) -> bool:
    """Whether what is named is moved by an action: to its host, to the task it starts, or an image that is built."""
    return (
        action.kind == ActionKind.BUILD or (action.subject if action.kind == ActionKind.START else action.host) == name
    )


def _names(kind: str, actions: list[Action]) -> str:
    """Return what the actions are about: the hosts of what moves, the tasks of the rest."""
    names = list(dict.fromkeys(action.host if kind in MOVES else action.subject for action in actions))
    return f"{' to ' if kind in MOVES else ' '}{join_names(names, _NAMED)}"


def _elapsed(begin: float, now: float) -> str:
    return duration(now - begin) if now - begin >= _SLOW else ""


def progress_line(progress: Progress, steps: int | None = None, *, runs: bool = True) -> str:
    """Return the chief's progress in one line; `steps` are those of the whole training, where they are known.

    Unless it `runs`, nobody can say how long the rest takes.
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
        parts.append(f"ETA {duration(left)}")
    return " · ".join(parts)


def duration(seconds: float) -> str:
    """Return a time span in its two largest units."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d {hours}h"
    if hours:
        return f"{hours}h {minutes}m"
    return f"{minutes}m {rest}s" if minutes else f"{rest}s"
