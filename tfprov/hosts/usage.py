"""How much of a host its tasks use: processor time, memory and GPUs, as the engine, /proc and nvidia-smi report it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

GPU_QUERY = ("nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits")
"""Prints a line for each process on a GPU: its pid, and MiB."""
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Usage:
    """What a task uses: `cpu` in cores since the last look, `memory` and `gpu_memory` in bytes; None if unknown."""

    cpu: float | None = None
    memory: int | None = None
    gpu_memory: int | None = None


class CpuMeter:
    """Turns used processor seconds into cores, from one look to the next. `now` returns seconds since any moment."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._before: dict[str, tuple[float, float]] = {}

    def cores(self, subject: str, seconds: float, at: float | None = None) -> float | None:
        """Return the cores that `subject` used since the last call, after `seconds` in all; None for the first one."""
        moment = self._now() if at is None else at
        before, self._before[subject] = self._before.get(subject), (seconds, moment)
        if before is None or moment <= before[1] or seconds < before[0]:  # restarted meanwhile
            return None
        return (seconds - before[0]) / (moment - before[1])


def parse_gpu_memory(output: str) -> Mapping[int, int]:
    """Return the bytes of GPU memory of each process by the output of GPU_QUERY; what is no number is left out."""
    used: dict[int, int] = {}
    for line in output.splitlines():
        pid, _, mib = (word.strip() for word in line.partition(","))
        if pid.isascii() and pid.isdecimal() and mib.isascii() and mib.isdecimal():
            used[int(pid)] = used.get(int(pid), 0) + int(mib) * _MIB
    return used
