"""The types of settings that are a word or a mapping, which settings are alike, and defaults that depend on others."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from tfprov.model import field_types, validators
from tfprov.model.sections import Count, Line, RenamedFlags
from tfprov.wiring import FLAGS

Wiring = Annotated[
    Annotated[Literal["flags", "tf_config"], Tag("word")] | Annotated[RenamedFlags, Tag("mapping")],
    Discriminator(lambda value: "mapping" if isinstance(value, dict | RenamedFlags) else "word"),
    BeforeValidator(validators.check_wiring),
]
MemorySize = Annotated[str, BeforeValidator(validators.require_unit), field_types.MEMORY]
Gpus = Annotated[
    Annotated[int, Field(ge=0, le=validators.MAX_GPUS)] | Literal["all"], BeforeValidator(validators.check_gpus)
]
User = Annotated[
    Annotated[int, Field(ge=0, le=field_types.MAX_UID)] | Annotated[str, field_types.USER] | None,
    BeforeValidator(field_types.check_user),
]
Devices = Annotated[
    list[Annotated[Line, field_types.DEVICE]],
    Field(
        description="Device files of the host, or directories of them, that a container may use, such as those of "
        "InfiniBand, or of AMD's GPUs, which are /dev/kfd and /dev/dri. Only a chief, workers and an evaluator get them "
        "from other places than their own group or host.",
        examples=[["/dev/infiniband"]],
    ),
]
LIMITS = (
    *("core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio"),
    *("rttime", "sigpending", "stack"),
)
"""The names of limits that an engine knows, as `docker run --ulimit` has them."""
Ulimits = Annotated[
    dict[
        Annotated[str, field_types.key_format("a limit", "|".join(LIMITS), f"use one of {', '.join(LIMITS)}", "(?!)")],
        Annotated[Count, Field(ge=-1, le=2**40)],
    ],
    Field(
        description="The kernel's limits of each process in a container, by the names of `docker run --ulimit`; -1 is "
        "unlimited. InfiniBand needs `memlock: -1`. Default: those of the engine.",
        examples=[{"memlock": -1, "stack": 67108864}],
    ),
]
Strategy = Literal["between_graph", "in_graph", "parameter_server", "multi_worker_mirrored", "single", "standalone"]
BY_TF_CONFIG: tuple[Strategy, ...] = ("in_graph", "parameter_server", "multi_worker_mirrored", "standalone")
"""Strategies whose programs read TF_CONFIG, as TensorFlow's own do."""


SHARED = ("cluster", "image", "deliver", "runtime", "strategy", "wiring", "data_service", "deadline", "notify")
"""Settings that must be the same for every task of an inventory."""

CONTAINER_ONLY = (
    *("deliver", "memory", "shm_size", "cpus", "gpus", "devices", "pids", "ulimits", "user", "read_only", "mounts"),
    *("network", "bind", "allow_insecure_network"),
)
"""Settings for `runtime: docker` only."""


def implied_runtime(image: object) -> str:
    """Return the default runtime: with an image, tasks run in containers."""
    return "process" if image is None else "docker"


def implied_wiring(strategy: object) -> str:
    """Return the default wiring: the one that programs of `strategy` read."""
    return "tf_config" if strategy in BY_TF_CONFIG else "flags"


def with_implied(values: Any) -> Any:
    """Return settings with the defaults that depend on others: the runtime on the image, the wiring on the strategy."""
    if not isinstance(values, dict):
        return values
    implied = {"runtime": implied_runtime(values.get("image")), "wiring": implied_wiring(values.get("strategy"))}
    return {**implied, **values}


def renamed_flags(wiring: str | RenamedFlags) -> Mapping[str, str]:
    """Return the renamed flags without dashes, by their usual names; an empty text for a flag that is left out."""
    if isinstance(wiring, str):
        return {}
    names = {name: (getattr(wiring.flags, name) or "").removeprefix("--") for name in FLAGS}
    return {name: renamed for name, renamed in names.items() if renamed != name}
