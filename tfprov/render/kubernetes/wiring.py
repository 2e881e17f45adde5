"""Command lines and environments in the syntax of Kubernetes: `$(NAME)` is a variable, `$$` is a `$`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tfprov.model.cluster import Cluster
from tfprov.render.target import Member
from tfprov.wiring import FLAGS_VARIABLE, Wiring, from_names, to_flags

_WORTH_SHARING = 4096
"""Minimum bytes of addresses that tasks share: a thousand tasks with a thousand addresses each are 50 MB."""

JOBS_VARIABLE = "TFPROV_JOBS"
"""The variable with the `cluster` of a shared TF_CONFIG."""


@dataclass(frozen=True)
class PodWiring:
    """The wiring of the tasks of `cluster`. If it `shares`, a ConfigMap may hold the addresses for all of them."""

    cluster: Cluster
    shares: bool = True

    @property
    def spec(self) -> Mapping[str, tuple[str, ...]]:
        """The addresses by job."""
        return self.cluster.spec

    @cached_property
    def shared(self) -> dict[str, str]:
        """The shared variables by name; none for a small cluster, whose file is easier to read without."""
        jobs = _json(self.spec)
        if not self.shares or len(jobs) < _WORTH_SHARING:
            return {}
        lists = {f"TFPROV_{job}_HOSTS".upper(): ",".join(self.spec.get(job, ())) for job in ("ps", "worker")}
        return {JOBS_VARIABLE: jobs, **{name: value for name, value in lists.items() if value}}

    def command(self, member: Member) -> list[str]:
        """Return the command line of `member`."""
        return [*map(literal, member.program), *self._flags(member), *map(literal, member.flags)]

    def _flags(self, member: Member) -> list[str]:
        names = {value: name for name, value in self.shared.items()}
        words = []
        for flag in member.wiring_flags:
            name, _, value = flag.partition("=")
            words.append(f"{literal(name)}=$({names[value]})" if value in names else literal(flag))
        return words

    def environment(self, member: Member) -> list[dict[str, Any]]:
        """Return the variables of `member`, each after those it refers to."""
        needed = {name for name in self.shared if self._needs(member, name)}
        shared: list[dict[str, Any]] = [
            {"name": name, "valueFrom": {"configMapKeyRef": {"name": self.config_map, "key": name}}}
            for name in self.shared
            if name in needed
        ]
        own: list[dict[str, Any]] = [
            {"name": name, "value": self._value(member, name, value)} for name, value in member.env.items()
        ]
        return [*shared, *own]

    @property
    def config_map(self) -> str:
        """The name of the ConfigMap with the shared variables."""
        return f"{self.cluster.name}-wiring"

    def _needs(self, member: Member, name: str) -> bool:
        if name == JOBS_VARIABLE:
            return "TF_CONFIG" in member.env
        return any(flag.partition("=")[2] == self.shared[name] for flag in member.wiring_flags)

    def _value(self, member: Member, name: str, value: str) -> str:
        if name == "TF_CONFIG" and JOBS_VARIABLE in self.shared:
            task = json.dumps({"index": member.index, "type": member.job}, sort_keys=True)
            if value == f'{{"cluster": {self.shared[JOBS_VARIABLE]}, "task": {task}}}':
                return f'{{"cluster": $({JOBS_VARIABLE}), "task": {task}}}'
        return literal(value)

    def command_with_index(self, member: Member, index: str) -> list[str]:
        """Return the command line with `index`, such as `$(TFPROV_INDEX)`, in place of the task's index."""
        names = from_names(member.env.get(FLAGS_VARIABLE, ""))
        wiring_flags = to_flags(Wiring(member.job, member.index, self.spec), names) if member.wiring_flags else []
        index_flag = f"--{names.get('task_index', 'task_index')}="
        flags = [f"{index_flag}{index}" if flag.startswith(index_flag) else literal(flag) for flag in wiring_flags]
        return [*map(literal, member.program), *flags, *map(literal, member.flags)]


def literal(text: str) -> str:
    """Return `text` escaped for Kubernetes, which passes it on unchanged."""
    return text.replace("$", "$$")


def _json(spec: Mapping[str, tuple[str, ...]]) -> str:
    return json.dumps({job: list(addresses) for job, addresses in spec.items()}, sort_keys=True)
