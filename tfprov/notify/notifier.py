"""Tells the targets of an inventory what happens, from a thread of its own: the run never waits for one."""

import queue
import threading
import time
from collections.abc import Callable, Sequence

from tfprov.engine.events import Event
from tfprov.model.sections import Notify
from tfprov.notify.message import Message, incident_of
from tfprov.notify.targets import NotTold, name_of, tell

_QUEUE = 100
"""Messages that wait; more are dropped: a command may take as long as it may."""
_PAUSES = (1.0, 4.0)
"""Seconds before each further try."""
LEAVE = 15.0
"""Seconds that the end of a verb waits for what is not told yet."""

Tell = Callable[[Notify, Message], None]


class Notifier:
    """Tells `targets`. `warn` gets one line for each target that is not reached, the first time in a row."""

    def __init__(  # noqa: PLR0913  tests replace what it does, its clock and its pauses
        self,
        targets: Sequence[Notify],
        cluster: str,
        run: Callable[[], str],
        warn: Callable[[str], None],
        *,
        tell: Tell = tell,
        wall: Callable[[], float] = time.time,
        pauses: Sequence[float] = _PAUSES,
    ) -> None:
        self._targets, self._cluster, self._run, self._warn = targets, cluster, run, warn
        self._tell, self._wall, self._pauses = tell, wall, pauses
        self._queue: queue.Queue[Message | None] = queue.Queue(_QUEUE)
        self._failing: set[int] = set()
        self._told: set[tuple[str, str]] = set()
        self._pause = threading.Event()
        self._thread = threading.Thread(target=self._work, name="tfprov-notify", daemon=True)
        if targets:
            self._thread.start()

    def handle(self, event: Event) -> None:
        """Tell what there is to tell of an event of the engine."""
        incident = incident_of(event)
        if incident is None:
            return
        kind, text, task, host = incident
        if kind == "crash_loop" and (kind, task) in self._told:  # it is seen in two ways
            return
        self._told.add((kind, task))
        self.send(Message(kind, self._cluster, self._run(), text, self._wall(), task, host))

    def send(self, message: Message) -> None:
        """Put a message into the queue; never blocks."""
        if not any(message.event in target.events for target in self._targets):
            return
        try:
            self._queue.put_nowait(message)
        except queue.Full:
            if -1 not in self._failing:
                self._failing.add(-1)
                self._warn("notify: messages are dropped, as the ones before them are not told yet")

    def close(self, seconds: float = LEAVE) -> None:
        """Wait for what is not told yet, `seconds` at most."""
        if not self._targets:
            return
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(seconds)

    def _work(self) -> None:
        while (message := self._queue.get()) is not None:
            for number, target in enumerate(self._targets):
                if message.event in target.events:
                    self._tell_again(number, target, message)

    def _tell_again(self, number: int, target: Notify, message: Message) -> None:
        for pause in (*self._pauses, None):
            try:
                self._tell(target, message)
            except NotTold as error:
                if pause is None:
                    self._warn_once(number, f"notify: {name_of(target)} was not told of `{message.event}`: {error}")
                else:
                    self._pause.wait(pause)
            else:
                self._failing.discard(number)
                return

    def _warn_once(self, number: int, text: str) -> None:
        if number not in self._failing:
            self._failing.add(number)
            self._warn(text)
