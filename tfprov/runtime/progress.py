"""Report a task's progress: `progress.json`, for `tfprov status` and `tfprov watch`, and lines in its log.

A thread writes the file: while a step hangs, `at` goes on, `steps` does not, and `rate` falls to 0. Needs no
TensorFlow: any training loop can report.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from pathlib import Path

from tfprov.atomic_write import replace

FILE = "progress.json"
WRITE_INTERVAL = 2.0
"""Seconds between two writes."""

_SAMPLES = 6
"""Writes that a rate spans, about ten seconds: one slow step is not a slow task."""


def say(line: str) -> None:
    """Print `line` and its newline in one write, so that output of TensorFlow's threads does not split it.

    print() makes two writes where output is not buffered, as in tasks of tfprov.
    """
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class ProgressWriter:
    """Writes `progress.json` in a task's checkpoint directory, every EVERY seconds and when it is closed.

    `task` is a name such as `worker/1`; `examples` is the examples per step of this task, None if unknown. Never raises: a
    directory that cannot be written is reported once, on stderr, and tried again. A remote one
    (`gs://…`) gets nothing.
    """

    def __init__(self, directory: str, task: str, examples: int | None = None) -> None:
        self.path = Path(directory) / FILE if "://" not in directory else None
        self.task, self.examples = task, examples
        self.step = self.steps = 0
        self.resumed: int | None = None
        self.lost: int | None = None
        self._samples: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)
        self._closed, self._writing, self._reported = threading.Event(), threading.Lock(), False
        self._thread = threading.Thread(target=self._write_often, name="tfprov-progress", daemon=True)

    def begin(self, step: int, restored: int | None = None) -> None:
        """Report that training begins at the global `step`; also after every lost ps.

        `restored` is the step of the model that the chief restored; None for a new one, and for every other task.
        """
        is_restart, reached_step = self._thread.is_alive(), self.step
        if restored is not None and not is_restart:
            reached_step = self._read_previous_step() or 0
        self.resumed = step if is_restart and restored is None else restored
        self.lost = reached_step if self.resumed is not None and reached_step > self.resumed else None
        self.step = step
        with self._writing:
            self._samples.clear()
        self.write()
        if not is_restart:
            self._thread.start()

    def stepped(self, step: int) -> None:
        """Count a step of this task, which brought the training to the global `step`."""
        self.steps, self.step = self.steps + 1, step

    def close(self) -> None:
        """Write a last time and end the thread; does nothing if training never began."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
            self.write()

    def write(self) -> None:
        """Write the file now."""
        with self._writing:
            text = json.dumps(self._record()) + "\n"
            if self.path:
                self._replace(self.path, text)

    def _record(self) -> dict[str, str | float | None]:
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
            "tensorflow": str(getattr(sys.modules.get("tensorflow"), "__version__", "")) or None,
        }

    def _rate(self) -> float | None:
        """Return the recent steps per second; None when training has just begun, which is not a rate of 0."""
        now, steps = time.monotonic(), self.steps
        since, before = self._samples[0] if self._samples else (now, steps)
        self._samples.append((now, steps))
        return round((steps - before) / (now - since), 3) if now > since else None

    def _replace(self, path: Path, text: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, text.encode())
        except OSError as error:
            if not self._reported:  # the next write may succeed: a full disk often has room again
                self._reported = True
                sys.stderr.write(
                    f"tfprov: {self.task}: progress cannot be written: {path}: {error.strerror or error}\n"
                )

    def _read_previous_step(self) -> int | None:
        """Return the step in the file of the previous run of this task."""
        try:
            step = json.loads(self.path.read_text("utf-8"))["step"] if self.path else None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return step if isinstance(step, int) else None

    def _write_often(self) -> None:
        while not self._closed.wait(WRITE_INTERVAL):
            self.write()
