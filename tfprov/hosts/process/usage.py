"""Processor time and memory of tasks of this machine, from /proc: of all processes in the group of each task."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from tfprov.hosts.usage import GPU_QUERY, CpuMeter, Usage, parse_gpu_memory

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_GPU_TIMEOUT = 5.0
"""Seconds for nvidia-smi, which hangs on a broken driver."""


class ProcessUsage:
    """Measures the tasks of this machine; `proc` is where the kernel shows processes."""

    def __init__(self, proc: Path = Path("/proc"), meter: CpuMeter | None = None) -> None:
        self._proc, self._meter = proc, meter or CpuMeter()

    def read(self, groups: Mapping[str, int]) -> Mapping[str, Usage]:
        """Return the usage of each task by the process group that its first process leads."""
        seconds = dict.fromkeys(groups.values(), 0.0)
        memory = dict.fromkeys(groups.values(), 0)
        members: dict[int, int] = {}
        for pid, group, used, resident in self._processes():
            if group in seconds:
                seconds[group] += used
                memory[group] += resident
                members[pid] = group
        gpu: dict[int, int] = {}
        for pid, size in _gpu_memory().items():
            if pid in members:
                gpu[members[pid]] = gpu.get(members[pid], 0) + size
        return {
            task: Usage(self._meter.cores(task, seconds[group]), memory[group], gpu.get(group))
            for task, group in groups.items()
        }

    def _processes(self) -> Iterator[tuple[int, int, float, int]]:
        """Yield pid, group, processor seconds and resident bytes of every process (proc(5))."""
        for entry in os.scandir(self._proc):
            if entry.name.isdecimal():
                with suppress(OSError, ValueError, IndexError):  # it ended
                    stat = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                    used = (int(stat[11]) + int(stat[12])) / _TICKS
                    yield int(entry.name), int(stat[2]), used, int(stat[21]) * _PAGE


def _gpu_memory() -> Mapping[int, int]:
    if shutil.which(GPU_QUERY[0]) is None:
        return {}
    try:
        done = subprocess.run(GPU_QUERY, capture_output=True, text=True, timeout=_GPU_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return parse_gpu_memory(done.stdout) if done.returncode == 0 else {}
