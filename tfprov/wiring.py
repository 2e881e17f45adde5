"""The wiring of a task, which gives its job, its index and the cluster: as four flags, and as TF_CONFIG.

The controller writes both and tasks read them, so this module uses the standard library only.
`from_flags(to_flags(w)) == w` and `from_tf_config(to_tf_config(w)) == w` hold for every valid wiring.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

FLAGS = ("job_name", "task_index", "ps_hosts", "worker_hosts")
"""The flags of TensorFlow's distributed examples (tensorflow/ecosystem, and its tutorial)."""

FLAGS_VARIABLE = "TFPROV_FLAGS"
"""The environment variable with the renamed flags; not set if all have their usual names."""

STRATEGY_VARIABLE = "TFPROV_STRATEGY"
"""The environment variable with the strategy."""

WEB = ("tensorboard", "serving", "notebook")
"""Jobs beside the training that people reach over HTTP, through a tunnel to the loopback of their host."""

READERS = ("evaluator", *WEB)
"""Jobs that only read the chief's files."""

FEEDERS = ("dispatcher", "data_worker")
"""Jobs of tf.data's service, which prepare data for the tasks that train."""

DRIVEN_BY_CHIEF = ("in_graph", "parameter_server")
"""Strategies whose chief runs the training on workers and ps, which are servers and decide nothing."""

STANDALONE = "standalone"
"""The strategy of bare servers, which a client outside of the cluster drives: no task has a program, and none ends."""

OUTSIDE = (*READERS, *FEEDERS)
"""Jobs outside of the ClusterSpec: TensorFlow runs an evaluator beside the cluster, not in it."""


class WiringError(ValueError):
    """Invalid flags or an invalid TF_CONFIG."""


@dataclass(frozen=True)
class Wiring:
    """The cluster as one task sees it.

    `cluster` has the addresses (`host:port`) of each job's tasks in the order of their index; `job` and `index` identify
    this task. A task that runs alone has an empty cluster.
    """

    job: str
    index: int
    cluster: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.index, bool) or not isinstance(self.index, int):
            raise WiringError(f"the task index must be a whole number, not {self.index!r}")
        size = len(self.cluster.get(self.job, ()))
        if self.job not in OUTSIDE and self.cluster and not 0 <= self.index < size:
            raise WiringError(f"{self.job}/{self.index} is not in the cluster: it has {size} {self.job} tasks")
        if self.index < 0:
            raise WiringError(f"the task index must be 0 or more, not {self.index}")

    @property
    def address(self) -> str | None:
        """The address of this task; None for a task outside of the ClusterSpec."""
        addresses = self.cluster.get(self.job, ())
        return addresses[self.index] if self.index < len(addresses) else None

    @property
    def is_chief(self) -> bool:
        """Whether this task initialises the variables and saves: `chief/0` if there is one, else `worker/0`."""
        return self.index == 0 and self.job == ("chief" if "chief" in self.cluster or self.job == "chief" else "worker")


def to_flags(wiring: Wiring, names: Mapping[str, str] | None = None) -> list[str]:
    """Return the four flags as `--name=value`; `names` renames them, and an empty name leaves a flag out.

    Raises WiringError for a cluster with other jobs than ps and worker: only TF_CONFIG has those.
    """
    if others := sorted(set(wiring.cluster) - {"ps", "worker"}):
        raise WiringError(f"the flags cannot name the job {others[0]!r}: use TF_CONFIG")
    values = {
        "job_name": wiring.job,
        "task_index": str(wiring.index),
        "ps_hosts": ",".join(wiring.cluster.get("ps", ())),
        "worker_hosts": ",".join(wiring.cluster.get("worker", ())),
    }
    renamed = {name: (names or {}).get(name, name) for name in FLAGS}
    return [f"--{renamed[name]}={value}" for name, value in values.items() if renamed[name]]


def to_names(names: Mapping[str, str]) -> str:
    """Return the value of FLAGS_VARIABLE: the renamed and left out flags as JSON, with sorted keys."""
    return json.dumps(dict(names), sort_keys=True)


def from_names(text: str) -> dict[str, str]:
    """Parse the value of FLAGS_VARIABLE, for `names` of `from_flags`; an empty text renames nothing.

    Raises WiringError for anything but a mapping of flags to names.
    """
    try:
        names = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise WiringError(f"{FLAGS_VARIABLE} is not valid: {error}") from None
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise WiringError(f"{FLAGS_VARIABLE} must be a mapping of flags to names, not {text!r}")
    if unknown := sorted(set(names) - set(FLAGS)):
        raise WiringError(f"{FLAGS_VARIABLE} renames {unknown[0]!r}, which is none of {', '.join(FLAGS)}")
    return {flag: name.lstrip("-") for flag, name in names.items()}


def from_flags(argv: Iterable[str], names: Mapping[str, str] | None = None) -> Wiring | None:
    """Parse the four flags in `argv`, in every form that absl and argparse accept; other arguments are ignored.

    Returns None without a job name, which means a single machine, and if `names` leaves a flag out: then only TF_CONFIG
    has the whole cluster.
    """
    if not all((names or {}).values()):
        return None
    values = _flag_values(list(argv), {(names or {}).get(name, name): name for name in FLAGS})
    if not values.get("job_name"):
        return None
    try:
        index = int(values.get("task_index", "0"))
    except ValueError:
        raise WiringError(f"--task_index must be a whole number, not {values['task_index']!r}") from None
    hosts = {job: tuple(filter(None, values.get(f"{job}_hosts", "").split(","))) for job in ("ps", "worker")}
    return Wiring(values["job_name"], index, {job: addresses for job, addresses in hosts.items() if addresses})


def _flag_values(argv: Sequence[str], flags: Mapping[str, str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for position, argument in enumerate(argv):
        if argument == "--":
            break
        if not argument.startswith("-"):
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        if name in flags:
            following = argv[position + 1] if position + 1 < len(argv) else ""
            values[flags[name]] = value if equals else following
    return values


def to_tf_config(wiring: Wiring) -> str:
    """Return TF_CONFIG, the JSON that TensorFlow's cluster resolvers read, with sorted keys."""
    cluster = {job: list(addresses) for job, addresses in wiring.cluster.items()}
    return json.dumps({"cluster": cluster, "task": {"type": wiring.job, "index": wiring.index}}, sort_keys=True)


def from_tf_config(text: str) -> Wiring | None:
    """Parse a TF_CONFIG; None for one without a task, which TensorFlow takes for a single machine.

    The index must be a number: a string, as some launchers write it, is an error here and a silent trap in TensorFlow.
    """
    try:
        config = json.loads(text or "{}")
        task = config.get("task") or {}
        cluster = {str(job): tuple(map(str, addresses)) for job, addresses in (config.get("cluster") or {}).items()}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise WiringError(f"TF_CONFIG is not valid: {error}") from None
    if not isinstance(task, dict) or not task.get("type"):
        return None
    return Wiring(str(task["type"]), task.get("index", 0), cluster)
