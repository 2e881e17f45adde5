"""The settings under `tfprov:`: the single source of their types, defaults, units and examples."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from tfprov.model import field_types, validators
from tfprov.model.sections import (
    Address,
    Checkpoints,
    ClusterName,
    Count,
    Data,
    End,
    EnvName,
    FlagName,
    Image,
    Line,
    MountSetting,
    NoCheckpoints,
    PathText,
    RenamedFlags,
    StrictModel,
    Value,
)
from tfprov.wiring import FLAGS


def _checkpoints(value: Any) -> Any:
    """Return NoCheckpoints for the word `none`, anything else unchanged."""
    return NoCheckpoints() if validators.is_none_word(value) else value


Wiring = Annotated[
    Annotated[Literal["flags", "tf_config"], Tag("word")] | Annotated[RenamedFlags, Tag("mapping")],
    Discriminator(lambda value: "mapping" if isinstance(value, dict | RenamedFlags) else "word"),
    BeforeValidator(validators.check_wiring),
]
CheckpointSetting = Annotated[
    Checkpoints, BeforeValidator(_checkpoints, json_schema_input_type=Literal["none"] | Checkpoints)
]
Strategy = Literal["between_graph", "in_graph", "parameter_server", "multi_worker_mirrored", "single"]
BY_TF_CONFIG: tuple[Strategy, ...] = ("in_graph", "parameter_server", "multi_worker_mirrored")
"""Strategies whose programs read TF_CONFIG, as TensorFlow's own do."""


def implied_runtime(image: object) -> str:
    """Return the default runtime: with an image, tasks run in containers."""
    return "process" if image is None else "docker"


def implied_wiring(strategy: object) -> str:
    """Return the default wiring: the one that programs of `strategy` read."""
    return "tf_config" if strategy in BY_TF_CONFIG else "flags"


class Settings(StrictModel):
    """The settings of one role on one host."""

    cluster: ClusterName = Field(
        description="The name of the cluster. It labels everything tfprov creates: two inventories with one name are "
        "the same cluster.",
        examples=["linear"],
    )
    image: Annotated[Image | None, BeforeValidator(validators.refuse_short_image)] = Field(
        None,
        description="The image that containers are made from, the same for all. With one, tasks run in containers. "
        "Default: none.",
        examples=[{"build": "../images/train"}],
    )
    runtime: Literal["docker", "process"] = Field(
        "process",
        description="What runs a task: `docker`, a container of `image` on its host's engine; `process`, a supervised "
        "process of this machine itself, without an image. Default: `docker` where an `image` is given, else `process`.",
        examples=["process"],
    )
    code: PathText | None = Field(
        None,
        description="The directory with the training program, delivered to every host as it is; `.dockerignore` in it is "
        "respected, and the inventory's own files and gathered checkpoints are left out. Tasks start in a copy of it. A "
        "relative path counts from the file it is written in. Default: none.",
        examples=["../images/train/programs"],
    )
    command: Annotated[list[Line], Field(min_length=1), AfterValidator(validators.check_command)] | None = Field(
        None,
        description="The program and its arguments; tfprov appends the wiring (`wiring: flags`) and `flags`. "
        "A role for which tfprov brings one takes both from its own group only; a tensorboard `env`, `code` and `bind` as "
        "well. Default: what tfprov brings for the roles tensorboard, dispatcher and data_worker; all others need one.",
        examples=[["python", "linear.py"]],
    )
    python: PathText | None = Field(
        None,
        description="The Python that runs tasks under the process runtime, such as that of a virtual environment: `python` "
        "and `python3` in `command` mean it, programs beside it come first in PATH, and it can import `tfprov.runtime`. A "
        "relative path counts from the file it is written in. Default: `ansible_python_interpreter` where that is an "
        "absolute path, else the Python that runs tfprov.",
        examples=["./venv/bin/python"],
    )
    strategy: Strategy = Field(
        "between_graph",
        description="How the program trains: `between_graph`, every worker builds the graph, variables on the ps; "
        "`in_graph`, the chief builds one graph over all workers; `parameter_server`, TensorFlow's "
        "ParameterServerStrategy, in which the chief gives the workers their steps; `multi_worker_mirrored`, workers "
        "alone, which average their gradients; `single`, one task. The program finds it in TFPROV_STRATEGY.",
        examples=["parameter_server"],
    )
    wiring: Wiring = Field(
        "flags",
        description="How the task learns who it is: `flags` appends --job_name, --task_index, --ps_hosts and "
        "--worker_hosts, and a mapping gives them other names or, with null, leaves some out. TF_CONFIG is in the "
        "environment either way, but for `strategy: single`, which tells a task nothing. Default: `flags`, and `tf_config` "
        "for the strategies `in_graph`, `parameter_server` and `multi_worker_mirrored`.",
        examples=["tf_config"],
    )
    flags: dict[FlagName, Value | None] = Field(
        default_factory=dict,
        description="Flags of the program, appended as `--name=value`, and as `--name` alone where the value is null. "
        "Arguments without a name belong into `command`; a name that `wiring` uses is tfprov's.",
        examples=[{"train_steps": 2000}],
    )
    env: dict[EnvName, Value] = Field(
        default_factory=dict,
        description="Environment variables of the task; values are text, so quote what YAML takes for something else.",
        examples=[{"TF_CPP_MIN_LOG_LEVEL": "2"}],
    )
    public_env: list[EnvName] = Field(
        default_factory=list,
        description="Names in `env` that are no secrets, though they have a word such as TOKEN, SECRET, PASSWORD or KEY. "
        "Secret variables reach a container as files on a tmpfs, and `docker inspect` does not show them.",
        examples=[["SORT_KEY"]],
    )
    checkpoints: CheckpointSetting = Field(
        default_factory=Checkpoints,
        description="Where checkpoints are saved and gathered. `none` for a program that saves nothing: without it, a "
        "`run` that ends without a checkpoint ends with exit code 1. What is saved is gathered either way. Default: the "
        "defaults of `dir` and `to`.",
        examples=[{"to": "./checkpoints"}],
    )
    data: Annotated[Data | None, BeforeValidator(validators.refuse_short_data)] = Field(
        None,
        description="The training data: a directory on the hosts, or files that they fetch. A ps and a tensorboard do not "
        "read it. Default: none.",
        examples=[{"path": "/data/mnist"}],
    )
    address: Address | None = Field(
        None,
        description="The name or IPv4 address under which the other tasks reach this host. Default: `ansible_host`, else "
        "the host's name; for `ansible_connection: local` 127.0.0.1, or where tasks run in containers the address of the "
        "engine's own network.",
        examples=["10.0.0.11"],
    )
    bind: Annotated[Line, field_types.IP_V4] | None = Field(
        None,
        description="The IPv4 address of the host on which the ports of its containers are published. "
        "Default: `address`, and 127.0.0.1 for a tensorboard, to which `tfprov tensorboard` leads.",
        examples=["10.0.0.11"],
    )
    allow_insecure_network: bool = Field(
        False,
        description="Allows `bind: 0.0.0.0`, which publishes ports in all networks of the host. A TensorFlow server asks "
        "for no password: anyone who reaches its port can run code.",
        examples=[True],
    )
    port: Annotated[Count, Field(ge=1, le=65535)] | None = Field(
        None,
        description="The port number of the first task on a host; further tasks there take the ports that follow. "
        "Default: 2222, and 6006 for tensorboard.",
        examples=[2222],
    )
    tasks_per_host: Annotated[Count, Field(ge=1, le=1000)] = Field(
        1, description="How many tasks of the role run on each of its hosts.", examples=[2]
    )
    memory: Annotated[str, BeforeValidator(validators.require_unit), field_types.MEMORY] | None = Field(
        None,
        description="How much memory a container may use, in Docker's units b, k, m and g (powers of 1024), at least 6m. "
        "Default: no limit.",
        examples=["4g"],
    )
    cpus: Annotated[float, Field(ge=0.01, le=8192, allow_inf_nan=False)] | None = Field(
        None, description="How many CPUs a container may use, in cores. Default: no limit.", examples=[2.5]
    )
    gpus: Annotated[
        Annotated[int, Field(ge=0, le=validators.MAX_GPUS)] | Literal["all"], BeforeValidator(validators.check_gpus)
    ] = Field(
        0,
        description="How many GPUs a container gets, or `all`. A ps, a tensorboard and the tasks of tf.data's "
        "service get none unless their own group or host says so.",
        examples=[1],
    )
    pids: Annotated[Count, Field(ge=64, le=4194304)] = Field(
        4096, description="How many processes and threads a container may have.", examples=[4096]
    )
    user: Annotated[
        Annotated[int, Field(ge=0, le=field_types.MAX_UID)] | Annotated[str, field_types.USER] | None,
        BeforeValidator(field_types.check_user),
    ] = Field(
        None,
        description="The user that containers run as: a number, or a name that the image has, with a group after a colon "
        "or without. The checkpoint directory and secrets are made for that user. With a number, HOME is /tmp unless "
        "`env` says otherwise. `tfprov check` warns about root. Default: the user of the image.",
        examples=["1000:1000"],
    )
    read_only: bool = Field(
        False,
        description="Whether the file system of containers is read-only, except for the checkpoint directory, a tmpfs at "
        "/tmp, which is HOME unless `env` says otherwise, and the working directory with the code.",
        examples=[True],
    )
    mounts: list[Annotated[MountSetting, BeforeValidator(validators.refuse_short_mount)]] = Field(
        default_factory=list,
        description="Directories of the host inside its containers.",
        examples=[[{"source": "/data/mnist", "target": "/data"}]],
    )
    restart: Literal["never", "on-failure"] = Field(
        "on-failure",
        description="Whether a task that ends with an exit code other than 0 is started again where it is.",
        examples=["never"],
    )
    max_restarts: Annotated[Count, Field(ge=1, le=1000)] = Field(
        3,
        description="After how many restarts a task that keeps failing is left alone; one that fails twice at once "
        "with the same error is left alone after the first.",
        examples=[3],
    )
    ready: Literal["port", "start"] = Field(
        "port",
        description="When a task counts as up: `port`, once it answers on its port, as every TensorFlow server does; "
        "`start`, once it runs, for a program that opens no port.",
        examples=["start"],
    )
    start_timeout: Annotated[Count, Field(ge=1, le=86400)] = Field(
        120, description="How many seconds a task may take from its start until it serves on its port.", examples=[300]
    )
    stop_grace: Annotated[Count, Field(ge=0, le=86400)] = Field(
        30,
        description="How many seconds a task has between SIGTERM and SIGKILL; the chief saves a checkpoint in them.",
        examples=[120],
    )

    end: End = Field(
        default_factory=End,
        description="What happens to a task when the chief is done. Default: the default of `wait`.",
        examples=[{"wait": 60}],
    )

    @property
    def by_flags(self) -> bool:
        """Whether tasks get their wiring as flags."""
        return self.wiring != "tf_config" and self.strategy != "single"

    @property
    def saves(self) -> bool:
        """Whether the program is expected to save checkpoints."""
        return not isinstance(self.checkpoints, NoCheckpoints)

    @property
    def flag_names(self) -> Mapping[str, str]:
        """The renamed flags without dashes, by their usual names; an empty text for a flag that is left out."""
        if isinstance(self.wiring, str):
            return {}
        names = {name: (getattr(self.wiring.flags, name) or "").removeprefix("--") for name in FLAGS}
        return {name: renamed for name, renamed in names.items() if renamed != name}

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, values: Any) -> Any:
        """Fill in defaults that depend on other settings: the runtime on the image, the wiring on the strategy."""
        if not isinstance(values, dict):
            return values
        implied = {
            "runtime": implied_runtime(values.get("image")),
            "wiring": implied_wiring(values.get("strategy")),
        }
        return {**implied, **values}


SHARED = ("cluster", "image", "runtime", "strategy", "wiring")
"""Settings that must be the same for every task of an inventory."""

CONTAINER_ONLY = ("memory", "cpus", "gpus", "pids", "user", "read_only", "mounts", "bind", "allow_insecure_network")
"""Settings for `runtime: docker` only."""
