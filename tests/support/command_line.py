"""The command line for tests: `tfprov` with a state, a cache and a working directory of the test's own.

A verb runs in a fork of the warm interpreter (see `tests.support.warm`), and so do the tasks that it starts on this
machine; with `fresh=True` it is a command as a user's shell starts it, and its tasks are true interpreters too.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.warm import AnyProcess, interpreter


class CommandLine:
    """Runs verbs with `env`, in `directory`, for the inventory there."""

    def __init__(self, directory: Path, env: Mapping[str, str]) -> None:
        self.directory = directory
        self.inventory = directory / "inventory.yml"
        self.env = dict(env)
        self.started: list[AnyProcess] = []

    def arguments(self, *words: str) -> list[str]:
        """Return what follows `python`; `-i` comes after both words of commands such as `image build`."""
        verb = 2 if words[0] in ("image", "inventory") else 1
        inventory = [] if words[0] in ("init", "runs", "dashboard") else ["-i", str(self.inventory)]
        return ["-m", "tfprov", *words[:verb], *inventory, *words[verb:]]

    def command(self, *words: str) -> list[str]:
        """Return the whole command line of a verb, with a true interpreter."""
        return [sys.executable, *self.arguments(*words)]

    def __call__(self, *words: str, code: int = 0, timeout: float = 600, fresh: bool = False) -> str:
        """Run a verb to its end, expect its exit code, and return all that it printed."""
        done = self.run(*words, timeout=timeout, fresh=fresh)
        assert done.returncode == code, f"exit code {done.returncode} instead of {code}:\n{done.stdout}{done.stderr}"
        # Of tfprov itself: what a task prints has its name in front.
        assert not any(line.startswith("Traceback") for line in done.stdout.splitlines()), done.stdout
        return done.stdout

    def run(
        self, *words: str, timeout: float = 600, fresh: bool = False, apart: bool = False
    ) -> "subprocess.CompletedProcess[str]":
        """Run a verb to its end, whatever its exit code; `apart` keeps standard error apart from standard output."""
        argv, stderr = self.arguments(*words), subprocess.PIPE if apart else subprocess.STDOUT
        if fresh:
            return subprocess.run(
                self.command(*words),
                env=self.env, cwd=self.directory, text=True, stdout=subprocess.PIPE, stderr=stderr,
                stdin=subprocess.DEVNULL, timeout=timeout, check=False,
            )  # fmt: skip
        return interpreter().run(argv, env=self.env, cwd=self.directory, apart=apart, timeout=timeout)

    def start(self, *words: str, fresh: bool = False) -> AnyProcess:
        """Start a verb and leave it running; what it prints is in `stdout`."""
        argv = self.arguments(*words)
        process: AnyProcess
        if fresh:
            process = subprocess.Popen(
                self.command(*words),
                env=self.env, cwd=self.directory, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        else:
            process = interpreter().popen(argv, env=self.env, cwd=self.directory, stdout=subprocess.PIPE)
        self.started.append(process)
        return process

    def end(self) -> None:
        """Kill the verbs that still run."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def python(
    *argv: str, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout: float = 600
) -> "subprocess.CompletedProcess[str]":
    """Run `python argv…` in a fork of the warm interpreter, with standard error apart."""
    return interpreter().run(argv, env=env, cwd=cwd, apart=True, timeout=timeout)
