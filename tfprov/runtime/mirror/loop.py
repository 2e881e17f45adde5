"""The thread that mirrors a checkpoint directory while its program runs; it never delays the program."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tfprov.atomic_write import replace
from tfprov.filesystems.generations import MIRROR_STATUS
from tfprov.filesystems.remote_dir import RemoteDir, RemoteError
from tfprov.runtime.mirror.mirror import Mirror, Superseded
from tfprov.runtime.mirror.restore import Owner, Refused, take_over
from tfprov.runtime.mirror.scan import lies_elsewhere
from tfprov.runtime.mirror.upload import release

POLL = 1.0
"""Seconds between two looks at the directory."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds before the next try after an error; they double."""
START_PATIENCE = 120.0
"""Seconds in which the remote directory must answer before the program starts; after that the task fails."""
END_PATIENCE = 600.0
"""Seconds after the end of the program in which what is left must be mirrored; a task that is stopped has its grace."""
_JITTER = random.Random()  # noqa: S311  not for cryptography


class MirrorLoop:
    """Mirrors until `stop`; `problem` is why the remote directory is behind, empty if it is not."""

    def __init__(self, mirror: Mirror, noted: Callable[[str], None], poll: float = POLL) -> None:
        self.mirror, self._noted, self._poll = mirror, noted, poll
        self.problem = ""
        self._is_over = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfprov-mirror", daemon=True)
        self._pause, self._reported_elsewhere = _FIRST_PAUSE, ""

    @classmethod
    def begin(  # noqa: PLR0913, PLR0917  all that a mirror has to do with
        cls,
        remote: RemoteDir,
        directory: Path,
        owner: Owner,
        noted: Callable[[str], None],
        pause: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> MirrorLoop:
        """Restore, and return the loop, which is not started. Raises RemoteError after `START_PATIENCE` of errors."""
        end, seconds, reported = clock() + START_PATIENCE, _FIRST_PAUSE, ""
        release(directory)
        while True:
            try:
                manifest, listing = take_over(remote, directory, owner, noted)
                break
            except Refused:
                raise
            except RemoteError as error:
                if error.fix or clock() + seconds > end:
                    raise
                if error.message != reported:
                    noted(f"{error.message}; trying again")
                    reported = error.message
                pause(seconds)
                seconds = min(2 * seconds, 15.0)
        mirror = Mirror(directory, remote, manifest, noted)
        mirror.adopt(listing)
        loop = cls(mirror, noted)
        loop.write_status()
        return loop

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, pause: Callable[[float], bool], *, patient: bool) -> None:
        """Mirror what is left and end. With `patient`, a remote directory that does not answer is asked for a while.

        `pause` waits between two tries, and returns whether the task is asked to end meanwhile.
        """
        self._ended.set()
        self._thread.join(END_PATIENCE if patient else None)  # it may be uploading
        if self._thread.is_alive():
            self.problem = self.problem or "no answer to a request"
            self._is_over = True
        end = time.monotonic() + (END_PATIENCE if patient else _LONGEST_PAUSE)
        self._pause = _FIRST_PAUSE
        while not self._is_over and not self.try_once(final=True):
            if time.monotonic() + self._pause > end or pause(self._next_pause()):
                break
        if self.problem:
            kept = "the local files are kept until they are gathered"
            self._noted(f"{self.mirror.remote.url} is behind: {self.problem}; {kept}")

    def _run(self) -> None:
        while not self._ended.is_set() and not self._is_over:
            done = self.try_once()
            self._ended.wait(self._poll if done else self._next_pause())

    def _next_pause(self) -> float:
        pause, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
        return pause * _JITTER.uniform(0.75, 1.25)

    def try_once(self, *, final: bool = False) -> bool:
        """Mirror what is new; return False after an error, which is in `problem`."""
        before = self.problem
        try:
            changed = self.mirror.sync(final=final)
        except Superseded as error:
            self._is_over = True
            self.problem = self._reason(error)
        except RemoteError as error:
            self.problem = self._reason(error)
        except OSError as error:  # the local disk
            self.problem = f"{self.mirror.directory} cannot be read: {error.strerror}"
        else:
            self.problem, self._pause = self._elsewhere(), _FIRST_PAUSE
            if before and not self.problem:
                self._noted(f"{self.mirror.remote.url} is complete again")
            if changed or before != self.problem:
                self.write_status()
            return True
        if self.problem != before:
            ends = "has ended" if self._is_over else "waits"
            self._noted(f"mirroring to {self.mirror.remote.url} {ends}: {self.problem}")
            self.write_status()
        return False

    def _reason(self, error: RemoteError) -> str:
        """Return an error without the URL: whoever prints it has that in front."""
        url, message = self.mirror.remote.url, error.message
        for start, shorter in ((f"{url}: ", ""), (f"{url} ", "it ")):
            if message.startswith(start):
                message = shorter + message[len(start) :]
        return f"{message}{f'; {error.fix}' if error.fix else ''}"

    def _elsewhere(self) -> str:
        """Return the problem of a checkpoint whose weights its saver left on a ps."""
        prefix = lies_elsewhere(self.mirror.directory)
        if prefix is None:
            return ""
        problem = (
            f"the weights of {prefix} are not here, but with a ps; save with tfprov.runtime, or Saver(sharded=False)"
        )
        if prefix != self._reported_elsewhere:
            self._reported_elsewhere = prefix
            self._noted(problem)
        return problem

    def write_status(self) -> None:
        """Write what is mirrored, for `tfprov status`, and whose directory this is, for the next start."""
        newest = self.mirror.manifest.newest()
        facts = {
            "url": self.mirror.remote.url,
            "newest": newest.prefix if newest else None,
            "step": newest.step if newest else None,
            "problem": self.problem,
            "at": time.time(),
        }
        try:
            replace(self.mirror.directory / MIRROR_STATUS, json.dumps(facts).encode() + b"\n")
        except OSError as error:
            self._noted(f"{MIRROR_STATUS} cannot be written: {error.strerror}")
