"""What a task that trains says of itself: `progress.json`, for `tfprov status` and `tfprov watch`, and lines in its log.

A thread writes the file: of a task whose step hangs, `at` goes on, `steps` does not, and `rate` falls to 0.
Nothing here needs TensorFlow: any training loop can report.
"""

import json
import sys
import threading
import time
from collections import deque
from pathlib import Path

from tfprov.atomic_write import replace

FILE = "progress.json"
EVERY = 2.0
"""Seconds between two writes."""

_SAMPLES = 6
"""Rates are over this many writes, about ten seconds: one slow step is not yet a slow task."""


def say(line: str) -> None:
    """Print `line` and its end in one write, so that nothing TensorFlow's threads print meanwhile gets into it.

    print() makes two of them where output is not buffered, as tfprov has it in a task.
    """
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Reporter:
    """Writes `progress.json` in a task's checkpoint directory, every EVERY seconds and when it is closed.

    `task` is such as `worker/1`; `examples` is how many of them this task's step takes, None where nobody said. It never
    ends a training: a directory that cannot be written is told once, on stderr. A remote directory (`gs://…`) is left out.
    """

    def __init__(self, directory: str, task: str, examples: int | None = None) -> None:
        self.path = Path(directory) / FILE if "://" not in directory else None
        self.task, self.examples = task, examples
        self.step = self.steps = 0
        self.resumed: int | None = None
        self.lost: int | None = None
        self._samples: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)
        self._closed, self._writing, self._silent = threading.Event(), threading.Lock(), False
        self._thread = threading.Thread(target=self._write_often, name="tfprov-progress", daemon=True)

    def begin(self, step: int, restored: int | None = None) -> None:
        """Say that training begins at the global `step`; again after every lost ps.

        `restored` is the step of the model that the chief found; None for a new one, and for every other task.
        """
        again, reached = self._thread.is_alive(), self.step
        if restored is not None and not again:
            reached = self._step_on_disk() or 0
        self.resumed = step if again and restored is None else restored
        self.lost = reached if self.resumed is not None and reached > self.resumed else None
        self.step = step
        with self._writing:
            self._samples.clear()
        self.write()
        if not again:
            self._thread.start()

    def stepped(self, step: int) -> None:
        """Say that this task has done one more step, and that all together are at the global `step`."""
        self.steps, self.step = self.steps + 1, step

    def close(self) -> None:
        """Write a last time and end the thread; nothing happens where training never began."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
            self.write()

    def write(self) -> None:
        """Write the file now."""
        with self._writing:
            text = json.dumps(self._told()) + "\n"
            if self.path and not self._silent:
                self._replace(self.path, text)

    def _told(self) -> dict[str, str | float | None]:
        rate = self._rate()
        return {
            "task": self.task,
            "step": self.step,
            "steps": self.steps,
            "rate": rate,
            "examples_rate": None if self.examples is None or rate is None else round(rate * self.examples, 3),
            "at": time.time(),
            "resumed": self.resumed,
            "lost": self.lost,
        }

    def _rate(self) -> float | None:
        """Return the steps per second of late; None when training has just begun: no speed is not a speed of 0."""
        now, steps = time.monotonic(), self.steps
        since, before = self._samples[0] if self._samples else (now, steps)
        self._samples.append((now, steps))
        return round((steps - before) / (now - since), 3) if now > since else None

    def _replace(self, path: Path, text: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, text.encode())
        except OSError as error:
            self._silent = True
            sys.stderr.write(f"tfprov: {self.task}: no progress is told: {path}: {error.strerror or error}\n")

    def _step_on_disk(self) -> int | None:
        """Return the step that the task before this one had reached, by the file it left."""
        try:
            step = json.loads(self.path.read_text("utf-8"))["step"] if self.path else None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return step if isinstance(step, int) else None

    def _write_often(self) -> None:
        while not self._closed.wait(EVERY):
            self.write()
