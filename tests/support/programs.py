"""Run training programs without tfprov: a process and a directory per task."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import command_line
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.waiting import LONG
from tests.support.warm import AnyProcess, interpreter
from tfprov.formats.checkpoint import checkpoints
from tfprov.wiring import Wiring, to_flags


@dataclass
class ProgramProcess:
    """One task."""

    popen: AnyProcess
    folder: Path
    name: str

    @property
    def out(self) -> str:
        """What it has printed so far."""
        return (self.folder / f"{self.name}.out").read_text(errors="replace")

    @property
    def err(self) -> str:
        """What it has printed on standard error so far."""
        return (self.folder / f"{self.name}.err").read_text(errors="replace")

    def wait(self, seconds: float = LONG) -> int:
        """Return the exit code."""
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.name} did not end within {seconds} s:\n{self.out[-500:]}\n{self.err[-2000:]}")

    def ends(self, code: int = 0, seconds: float = LONG) -> None:
        """Wait for its end; fail with what it printed where its exit code is another one."""
        ended = self.wait(seconds)
        assert ended == code, f"{self.name} ended with {ended}:\n{self.out[-500:]}\n{self.err[-4000:]}"

    def until(self, seen: Callable[["ProgramProcess"], object], seconds: float = LONG) -> None:
        """Wait for `seen`; fail when the task ends before."""
        deadline = time.monotonic() + seconds
        while True:
            ended = self.popen.poll() is not None  # before the look: what it has done last is there then
            if seen(self):
                return
            if ended or time.monotonic() > deadline:
                pytest.fail(f"{self.name} (code {self.popen.poll()}):\n{self.out[-500:]}\n{self.err[-2000:]}")
            time.sleep(0.02)

    def times(self, what: str) -> list[float]:
        """Return the numbers behind the word `what`, of all lines that are these two."""
        return [float(at) for at in re.findall(rf"^{what} (\S+)$", self.out, re.MULTILINE)]


@dataclass
class ProgramHosts:
    """Starts programs and ends every one of them, whatever the test did."""

    base: Path
    started: list[ProgramProcess] = field(default_factory=list)

    def start(
        self,
        program: Path,
        *arguments: str,
        name: str = "alone",
        environ: Mapping[str, str] | None = None,
        fresh: bool = False,
    ) -> ProgramProcess:
        """Start a program in a directory of its own; `fresh` with an interpreter that imports TensorFlow itself."""
        folder = self.base / name
        folder.mkdir(exist_ok=True)
        # Relative, so that a file written by the wrong task lies in the wrong directory.
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "TFPROV_CHECKPOINT_DIR": "saved"}
        environment.pop("TF_CONFIG", None)
        unique = f"{name}-{len(self.started)}"
        with (folder / f"{unique}.out").open("wb") as out, (folder / f"{unique}.err").open("wb") as err:
            command, environment = [str(program), *arguments], environment | dict(environ or {})
            popen: AnyProcess
            if fresh:
                popen = subprocess.Popen(
                    [sys.executable, *command], cwd=folder, env=environment, stdout=out, stderr=err, text=True
                )
            else:
                popen = interpreter().popen(command, cwd=folder, env=environment, stdout=out, stderr=err)
        self.started.append(ProgramProcess(popen, folder, unique))
        return self.started[-1]

    def task(self, program: Path, wiring: Wiring, *arguments: str, fresh: bool = False) -> ProgramProcess:
        """Start a program as one task of a cluster, with its flags."""
        name = f"{wiring.job}{wiring.index}"
        return self.start(program, *to_flags(wiring), *arguments, name=name, fresh=fresh)

    def end(self) -> None:
        """Kill all of them."""
        for process in self.started:
            process.popen.kill()
            process.popen.wait()


def addresses(**jobs: int) -> dict[str, tuple[str, ...]]:
    """Return free ports on the loopback for so many tasks of each job."""
    return {job: tuple(f"127.0.0.1:{free_port()}" for _ in range(count)) for job, count in jobs.items()}


def verify(*prefixes: Path) -> tuple[int, list[dict[str, Any]]]:
    """Read every tensor of checkpoints; return the exit code of the verifier, and a result for each prefix."""
    done = command_line.python("-m", "tfprov.runtime.verify", *map(str, prefixes), cwd=ROOT, timeout=LONG)
    assert done.stderr == ""
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def whole(folder: Path) -> dict[int, str]:
    """Return the prefixes of the whole checkpoints of a directory, by step."""
    names = [entry.name for entry in folder.iterdir()]
    return {checkpoint.step: checkpoint.prefix for checkpoint in checkpoints(names) if checkpoint.whole}


def python(program: str, *arguments: str) -> str:
    """Run a Python program to its end and return what it printed."""
    done = command_line.python("-c", program, *arguments, timeout=LONG)
    assert done.returncode == 0, done.stderr
    return done.stdout


READ_BACK = """
import json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(sys.argv[1]))
print(json.dumps({name: float(reader.get_tensor(name)) for name in reader.get_variable_to_shape_map()}))
"""


def read_back(directory: Path) -> dict[str, float]:
    """Return all variables of the latest checkpoint in `directory`, as a user reads them."""
    done = command_line.python("-c", READ_BACK, str(directory))
    assert done.returncode == 0, done.stderr
    values: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return values
