"""The types of settings that are a word or a mapping, which settings are alike, and defaults that depend on others."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Tag

from tfprov.model import validators
from tfprov.model.sections import RenamedFlags

Wiring = Annotated[
    Annotated[Literal["flags", "tf_config"], Tag("word")] | Annotated[RenamedFlags, Tag("mapping")],
    Discriminator(lambda value: "mapping" if isinstance(value, dict | RenamedFlags) else "word"),
    BeforeValidator(validators.check_wiring),
]
Strategy = Literal["between_graph", "in_graph", "parameter_server", "multi_worker_mirrored", "single", "standalone"]
BY_TF_CONFIG: tuple[Strategy, ...] = ("in_graph", "parameter_server", "multi_worker_mirrored", "standalone")
"""Strategies whose programs read TF_CONFIG, as TensorFlow's own do."""


SHARED = ("cluster", "image", "deliver", "runtime", "strategy", "wiring", "data_service", "deadline", "notify")
"""Settings that must be the same for every task of an inventory."""

CONTAINER_ONLY = (
    *("deliver", "memory", "cpus", "gpus", "pids", "user", "read_only", "mounts", "bind"),
    "allow_insecure_network",
)
"""Settings for `runtime: docker` only."""


def implied_runtime(image: object) -> str:
    """Return the default runtime: with an image, tasks run in containers."""
    return "process" if image is None else "docker"


def implied_wiring(strategy: object) -> str:
    """Return the default wiring: the one that programs of `strategy` read."""
    return "tf_config" if strategy in BY_TF_CONFIG else "flags"
