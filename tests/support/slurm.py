"""A stand-in for Slurm: `srun` and `scontrol` start real tasks on this machine. Addresses of 127.0.0.0/8 are nodes.

Run as a program, it is one of the two commands, with the allocation in the environment as in Slurm.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO


class Allocation:
    """The nodes of a job, with the number of tasks on each. `directory` gets its commands."""

    def __init__(self, directory: Path, tasks: Sequence[int], job: int = 7) -> None:
        self.nodes = [f"127.0.0.{number + 1}" for number in range(len(tasks))]
        self.directory = directory
        self.env = {
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_NODELIST": "/".join(self.nodes),  # only scontrol expands it
            "SLURM_TASKS_PER_NODE": _packed(tasks),
        }
        directory.mkdir()
        for name in ("srun", "scontrol"):
            command = directory / name
            command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{__file__}" {name} "$@"\n')
            command.chmod(0o755)

    def start(self, script: str, env: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
        """Start `script` as the batch script of the job, with its output in one pipe."""
        path = self.directory / "slurm_script"
        path.write_text(script)
        search = f"{self.directory}{os.pathsep}{os.environ['PATH']}"
        return subprocess.Popen(
            ["bash", str(path)],
            env={**os.environ, **self.env, "PATH": search, **(env or {})},
            cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def run(self, script: str, env: Mapping[str, str] | None = None, timeout: float = 300) -> tuple[int, str]:
        """Run a script to its end and return its exit code and output."""
        process = self.start(script, env)
        try:
            printed, _ = process.communicate(timeout=timeout)
        finally:
            process.kill()
        return process.returncode, printed


def _packed(tasks: Sequence[int]) -> str:
    """Return `[2, 2, 1]` in Slurm's form: `2(x2),1`."""
    parts: list[tuple[int, int]] = []
    for count in tasks:
        if parts and parts[-1][0] == count:
            parts[-1] = count, parts[-1][1] + 1
        else:
            parts.append((count, 1))
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in parts)


def _srun(argv: Sequence[str]) -> int:
    """Start `--ntasks` tasks, each with all of the standard input, and forward signals as srun does."""
    command = argv[argv.index("bash") :]
    count = next(int(word.partition("=")[2]) for word in argv if word.startswith("--ntasks="))
    script_input = sys.stdin.buffer.read()
    tasks = []
    for rank in range(count):
        slurm_env = {
            "SLURM_PROCID": str(rank),
            "SLURM_STEP_NODELIST": os.environ["SLURM_JOB_NODELIST"],
            "SLURM_STEP_TASKS_PER_NODE": os.environ["SLURM_TASKS_PER_NODE"],
        }
        pipe = subprocess.PIPE
        tasks.append(
            subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **slurm_env}, start_new_session=True
            )
        )

    def forward(number: int, _: object) -> None:
        for task in tasks:
            for process in _members(task.pid):
                with contextlib.suppress(ProcessLookupError):
                    # srun does not forward SIGTERM: it ends the step at once.
                    os.kill(process, signal.SIGKILL if number == signal.SIGTERM else number)

    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
        signal.signal(number, forward)
    threads = []
    for rank, task in enumerate(tasks):
        assert task.stdin is not None
        threads.append(threading.Thread(target=_feed, args=(task.stdin, script_input)))
        outputs = (task.stdout, task.stderr)
        threads += [threading.Thread(target=_label, args=(rank, len(str(count)), one)) for one in outputs]
    for thread in threads:
        thread.start()
    # A signal that comes just before a wait is handled only after it: srun must not wait for a task to forward one.
    while any(task.poll() is None for task in tasks):
        time.sleep(0.02)
    codes = [task.wait() for task in tasks]
    for thread in threads:
        thread.join()
    return max(code if code >= 0 else 128 - code for code in codes)


def _members(session: int) -> list[int]:
    """Return all processes of a task: Slurm signals each of them, in any process group."""
    processes = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((path / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                processes.append(int(path.name))
    return processes


def _feed(pipe: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        pipe.write(data)
    with contextlib.suppress(BrokenPipeError):
        pipe.close()


def _label(rank: int, width: int, pipe: IO[bytes]) -> None:
    for line in pipe:
        sys.stdout.buffer.write(f"{rank:0{width}}: ".encode() + line.rstrip(b"\n") + b"\n")
        sys.stdout.buffer.flush()


def _scontrol(argv: Sequence[str]) -> int:
    assert list(argv[:2]) == ["show", "hostnames"], argv
    print("\n".join(argv[2].split("/")))
    return 0


if __name__ == "__main__":
    sys.exit({"srun": _srun, "scontrol": _scontrol}[sys.argv[1]](sys.argv[2:]))
