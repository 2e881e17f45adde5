"""Translate an engine's description of a container into an Observed, and find out how earlier runs ended."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tfprov.errors import HostError
from tfprov.hosts.crash import LINES, last_words
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.answers import parse_time
from tfprov.hosts.docker.engine_api.sdk import docker
from tfprov.hosts.docker.engine_errors import explain, version_numbers
from tfprov.hosts.docker.labels import DIRECTORY, RUN, SPEC, STOPPED, TASK
from tfprov.hosts.docker.logs import RunEnd, run_ends
from tfprov.hosts.log_file import split_lines
from tfprov.hosts.usage import GPU_QUERY, CpuMeter, Usage, parse_gpu_memory
from tfprov.model.state import Observed, State

_STATES = {"created": State.CREATED, "exited": State.EXITED, "dead": State.EXITED}
"""All other states (running, restarting, paused, removing) count as running: processes may still exist."""


def parse_container(facts: Mapping[str, Any], host: str) -> Observed:
    """Return the observed state of an inspected container."""
    status_facts, labels = facts["State"], facts["Config"].get("Labels") or {}
    state = _STATES.get(status_facts["Status"], State.RUNNING)
    ended = state is State.EXITED
    failed_to_start = state is State.CREATED and bool(status_facts.get("Error"))
    return Observed(
        task=labels.get(TASK, ""),
        host=host,
        state=State.EXITED if failed_to_start else state,
        spec=_parse_spec(labels.get(SPEC, "")),
        id=facts["Id"][:12],
        run=labels.get(RUN, ""),
        exit_code=status_facts["ExitCode"] if ended or failed_to_start else None,
        started_at=parse_time(status_facts["StartedAt"]),
        finished_at=parse_time(status_facts["FinishedAt"]) if ended else None,
        restarts=facts.get("RestartCount", 0),
        restarting=status_facts["Status"] == "restarting",
        unpause="docker unpause" if status_facts["Status"] == "paused" else "",
        last_exit=status_facts["ExitCode"] if status_facts["Status"] == "restarting" else None,
        gave_up=ended and _restarts_ended(facts),
        stopped=facts["Name"].endswith(STOPPED),
        error=_error_text(facts) if ended or failed_to_start else "",
    )


def _restarts_ended(facts: Mapping[str, Any]) -> bool:
    """Whether `end_restarts` ended the restarts of a container: the policy is `no`, yet there were restarts."""
    policy = (facts.get("HostConfig", {}).get("RestartPolicy") or {}).get("Name")
    return policy == "no" and bool(facts.get("RestartCount")) and bool(facts["State"]["ExitCode"])


def _parse_spec(text: str) -> Mapping[str, Any]:
    try:
        spec = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return spec if isinstance(spec, dict) else {}


def _error_text(facts: Mapping[str, Any]) -> str:
    if facts["State"].get("OOMKilled") and facts["State"]["ExitCode"]:  # of any process, with cgroups of version 2
        limit = facts["HostConfig"].get("Memory") or 0
        return f"it was killed: out of memory{f' (limit {limit // 1024**2}m)' if limit else ''}"
    return "; ".join(filter(None, explain(str(facts["State"].get("Error") or ""))))


@dataclass(frozen=True)
class LastRun:
    """The exit code of a container's run, None if unknown, and the log line that named its failure."""

    code: int | None
    last_words: str


class ExitHistory:
    """How earlier runs of containers ended, queried once per restart: an engine keeps a few hundred events."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, tuple[tuple[int, str], LastRun]] = {}

    def last(self, facts: Mapping[str, Any]) -> LastRun | None:
        """Return the end of the run before the current or next one; None if there was none."""
        restarts, status = facts.get("RestartCount", 0), facts["State"]["Status"]
        if not restarts or status not in ("running", "restarting"):
            return None
        container = facts["Id"]
        known = self._known.get(container)
        if known is None or known[0] != (restarts, status):
            known = self._known[container] = (restarts, status), self._last_run(facts)
        return known[1]

    def _last_run(self, facts: Mapping[str, Any]) -> LastRun:
        state = facts["State"]
        ended, started = parse_time(state["FinishedAt"]), parse_time(state["StartedAt"])
        if state["Status"] == "restarting":
            return LastRun(state["ExitCode"], self._last_words(facts["Id"], {}))
        if ended is None or started is None or started < ended:
            return LastRun(None, self._last_words(facts["Id"], {}))
        end = self._reported_end(facts["Id"], ended, started)
        # Without a report: an engine waits 0.1 s or more between two runs.
        until = (ended + started) / 2 if end is None else end.at
        return LastRun(end.code if end else None, self._last_words(facts["Id"], {"until": until}))

    def _last_words(self, container: str, until: Mapping[str, Any]) -> str:
        """Return the last words of the run before the current one, whose output is left out with `until`."""
        try:
            with self._engine.errors():
                # stream=True strips the frames of the engine's protocol.
                output = self._engine.api.logs(container, stream=True, follow=False, tail=LINES, **until)
                return last_words(list(split_lines(output)))
        except (HostError, docker.errors.APIError):  # only an explanation is lost
            return ""

    def _reported_end(self, container: str, ended: float, started: float) -> RunEnd | None:
        try:
            with self._engine.errors():
                ends = run_ends(self._engine.api, container, ended, started)
        except HostError:  # only a number in a message is lost
            return None
        return ends[-1] if ends else None


_DEFAULT_DIRECTORY = "/checkpoints"
"""A container's checkpoint directory without a label for it."""


def has_used(facts: Mapping[str, Any], volume: str) -> bool:
    """Whether a container was started with `volume`, which was made writable before."""
    mounted = any(mount.get("Name") == volume for mount in facts.get("Mounts") or ())
    return mounted and parse_container(facts, "").started_at is not None


def checkpoint_directory(facts: Mapping[str, Any] | None) -> str:
    """Return the checkpoint directory of an inspected container; None is one that does not exist yet."""
    labels = facts["Config"].get("Labels") if facts is not None else None
    return (labels or {}).get(DIRECTORY) or _DEFAULT_DIRECTORY


_ONE_SHOT = "1.41"
"""The first API version that returns figures at once, and not after a second."""


class ContainerUsage:
    """Measures the containers of a cluster by the engine's own figures, and their GPU memory by nvidia-smi."""

    def __init__(self) -> None:
        self._meter = CpuMeter()
        self._has_gpus = True

    def read(
        self, api: "docker.APIClient", label: str, run: Callable[[Sequence[str]], tuple[int, str]]
    ) -> Mapping[str, Usage]:
        """Return the usage of the running containers with `label`, by task."""
        listed = api.containers(filters={"label": [label, TASK]})
        gpu = self._gpu_memory(run) if listed else {}
        result = {}
        for entry in listed:
            with suppress(docker.errors.APIError):  # it has ended
                once = {} if version_numbers(api.api_version) < version_numbers(_ONE_SHOT) else {"one_shot": True}
                figures = api.stats(entry["Id"], decode=None, stream=False, **once)
                used = self._parse(entry["Labels"][TASK], figures)
                result[entry["Labels"][TASK]] = replace(used, gpu_memory=_of_container(api, entry["Id"], gpu))
        return result

    def _parse(self, task: str, figures: Mapping[str, Any]) -> Usage:
        cpu, memory = figures.get("cpu_stats") or {}, figures.get("memory_stats") or {}
        total, at = (cpu.get("cpu_usage") or {}).get("total_usage"), parse_time(figures.get("read") or "")
        cores = None if total is None or at is None else self._meter.cores(task, total / 1e9, at)
        details = memory.get("stats") or {}
        # As `docker stats`: what the kernel only keeps for files is no use of the task's.
        cache = details.get("total_inactive_file", details.get("inactive_file", 0))
        size = memory.get("usage")
        return Usage(cores, None if size is None else max(0, size - cache))

    def _gpu_memory(self, run: Callable[[Sequence[str]], tuple[int, str]]) -> Mapping[int, int]:
        if not self._has_gpus:
            return {}
        code, output = run(GPU_QUERY)
        self._has_gpus = code == 0
        return parse_gpu_memory(output) if code == 0 else {}


def _of_container(api: "docker.APIClient", container: str, gpu: Mapping[int, int]) -> int | None:
    """Return the GPU memory of the processes of a container, which the engine knows by the host's own pids."""
    if not gpu:
        return None
    listed = api.top(container, ps_args="-eo pid")["Processes"]
    sizes = [gpu[int(row[0])] for row in listed if row and str(row[0]).isdecimal() and int(row[0]) in gpu]
    return sum(sizes) if sizes else None
