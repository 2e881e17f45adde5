"""Notifies the targets of an inventory, from a thread of its own: the run never waits for one."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from tfprov.engine.events import Event
from tfprov.model.sections import Notify
from tfprov.notify.message import Message, incident_of
from tfprov.notify.targets import NotSent, name_of, send

_QUEUE = 100
"""Messages that wait; more are dropped: a command may take as long as it may."""
_PAUSES = (1.0, 4.0)
"""Seconds before each further try."""
LEAVE = 15.0
"""Seconds that the end of a verb waits for what is not sent yet."""

Send = Callable[[Notify, Message], None]


class Notifier:
    """Sends messages to `targets`. `warn` gets one line for each target that is not reached, the first time in a row."""

    def __init__(  # noqa: PLR0913  tests replace what it does, its clock and its pauses
        self,
        targets: Sequence[Notify],
        cluster: str,
        run: Callable[[], str],
        warn: Callable[[str], None],
        *,
        send: Send = send,
        wall: Callable[[], float] = time.time,
        pauses: Sequence[float] = _PAUSES,
    ) -> None:
        self._targets, self._cluster, self._run, self._warn = targets, cluster, run, warn
        self._send_to, self._wall, self._pauses = send, wall, pauses
        self._queue: queue.Queue[Message | None] = queue.Queue(_QUEUE)
        self._failing: set[int] = set()
        self._sent: set[tuple[str, str]] = set()
        self._pause = threading.Event()
        self._thread = threading.Thread(target=self._work, name="tfprov-notify", daemon=True)
        if targets:
            self._thread.start()

    def handle(self, event: Event) -> None:
        """Send the message about an event of the engine, if there is one."""
        incident = incident_of(event)
        if incident is None:
            return
        kind, text, task, host = incident
        if kind == "crash_loop" and (kind, task) in self._sent:  # it is seen in two ways
            return
        self._sent.add((kind, task))
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
                self._warn("notify: messages are dropped, as the ones before them are not sent yet")

    def close(self, seconds: float = LEAVE) -> None:
        """Wait for what is not sent yet, `seconds` at most."""
        if not self._targets:
            return
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            return
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._warn(f"notify: {seconds:g} s were not enough for all messages: some are not sent")

    def _work(self) -> None:
        while (message := self._queue.get()) is not None:
            targets = [one for one in enumerate(self._targets) if message.event in one[1].events]
            for pause in (*self._pauses, None):  # one that hangs holds up no other's first try
                targets = self._unsent(targets, message, last=pause is None)
                if targets and pause is not None:
                    self._pause.wait(pause)

    def _unsent(
        self, targets: Sequence[tuple[int, Notify]], message: Message, *, last: bool
    ) -> list[tuple[int, Notify]]:
        """Send to all targets side by side; return those that failed. Warnings are in the order of the targets."""
        errors = {number: NotSent("it failed") for number, _ in targets}

        def attempt(number: int, target: Notify) -> None:
            try:
                self._send_to(target, message)
            except NotSent as error:
                errors[number] = error
            else:
                del errors[number]

        tries = [threading.Thread(target=attempt, args=one, daemon=True) for one in targets]
        for one in tries:
            one.start()
        for one in tries:
            one.join()
        self._failing -= {number for number, _ in targets if number not in errors}
        failed = [(number, target) for number, target in targets if number in errors]
        for number, target in failed if last else ():
            self._warn_once(number, f"notify: `{message.event}` was not sent to {name_of(target)}: {errors[number]}")
        return failed

    def _warn_once(self, number: int, text: str) -> None:
        if number not in self._failing:
            self._failing.add(number)
            # The output may be closed, or a callback fail: the next message is sent all the same.
            with suppress(Exception):
                self._warn(text)
