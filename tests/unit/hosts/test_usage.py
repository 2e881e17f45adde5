"""What tasks use: processor time between two looks, memory of a whole process group, GPUs by nvidia-smi."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.support.waiting import until
from tfprov.hosts.docker.labels import TASK
from tfprov.hosts.docker.state import ContainerUsage
from tfprov.hosts.process.usage import ProcessUsage
from tfprov.hosts.usage import CpuMeter, Usage, parse_gpu_memory

MIB = 1 << 20


def test_cores_are_known_from_the_second_look_on() -> None:
    now = iter([10.0, 12.0, 13.0, 14.0])
    meter = CpuMeter(lambda: next(now))
    assert [meter.cores("ps/0", seconds) for seconds in (5.0, 9.0, 1.0, 1.5)] == [None, 2.0, None, 0.5]


def test_gpu_memory_by_process() -> None:
    output = "4711, 1024\n4711, 512\n12, 7\n13, [N/A]\nNo running processes found\nx, 1\n"
    assert parse_gpu_memory(output) == {4711: 1536 * MIB, 12: 7 * MIB}
    assert parse_gpu_memory("") == {}


def test_a_task_is_all_processes_of_its_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = "import time; b = bytearray(50_000_000); time.sleep(600)"
    program = (
        f"import subprocess, sys; b = bytearray(50_000_000); subprocess.Popen([sys.executable, '-c', {child!r}]).wait()"
    )
    smi = tmp_path / "nvidia-smi"
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as process:
        try:
            smi.write_text(f"#!/bin/sh\necho '{process.pid}, 100'\necho '1, 5'\n")
            smi.chmod(0o755)
            monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
            usage = ProcessUsage()
            until(lambda: (usage.read({"worker/0": process.pid})["worker/0"].memory or 0) > 100_000_000, seconds=60)
            used = usage.read({"worker/0": process.pid, "ps/0": 2**22 + 1})
        finally:
            os.killpg(process.pid, 9)
    assert used["worker/0"].gpu_memory == 100 * MIB
    assert used["worker/0"].cpu is not None
    assert used["ps/0"] == Usage(None, 0, None), "one that has just ended"


class Engine:
    """Answers like an engine with two containers, of which one ends meanwhile, and with one GPU."""

    api_version = "1.43"

    def __init__(self) -> None:
        self.seconds = 1

    def containers(self, filters: object) -> list[dict[str, Any]]:
        return [{"Id": name, "Labels": {TASK: name}} for name in ("ps/0", "worker/0")]

    def stats(self, container: str, **how: object) -> dict[str, Any]:
        if container == "ps/0":
            raise docker.errors.NotFound("gone")
        assert how["one_shot"], "an answer at once"
        self.seconds += 2
        return {
            "read": f"2026-01-01T00:00:{self.seconds:02}Z",
            "cpu_stats": {"cpu_usage": {"total_usage": self.seconds * 1_500_000_000}},
            "memory_stats": {"usage": 300 * MIB, "stats": {"inactive_file": 100 * MIB}},
        }

    def top(self, container: str, ps_args: str) -> dict[str, Any]:
        return {"Processes": [["4711"], ["12"]]}


def test_containers_by_the_figures_of_their_engine() -> None:
    asked: list[int] = []

    def smi(argv: object) -> tuple[int, str]:
        asked.append(1)
        return (0, "4711, 64\n99, 1\n") if len(asked) < 3 else (127, "")

    usage, engine = ContainerUsage(), Engine()
    api: Any = engine
    assert usage.read(api, "x", smi) == {"worker/0": Usage(None, 200 * MIB, 64 * MIB)}
    assert usage.read(api, "x", smi) == {"worker/0": Usage(1.5, 200 * MIB, 64 * MIB)}
    assert usage.read(api, "x", smi)["worker/0"].gpu_memory is None
    usage.read(api, "x", smi)
    assert len(asked) == 3, "a host without nvidia-smi is asked once"
