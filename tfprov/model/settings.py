"""The settings under `tfprov:`: the single source of their types, defaults, units and examples."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from tfprov.model import field_types, setting_types, validators
from tfprov.model.delivery import Deliver
from tfprov.model.sections import (
    Address,
    ClusterName,
    Count,
    DataService,
    End,
    EnvName,
    ExitCode,
    FlagName,
    Image,
    Line,
    MountSetting,
    Notify,
    PathText,
    PathTexts,
    Serving,
    Span,
    StrictModel,
    Value,
)
from tfprov.model.storage import Checkpoints, CheckpointSetting, Data, NoCheckpoints
from tfprov.wiring import STANDALONE


class Settings(StrictModel):
    """The settings of one role on one host."""

    cluster: ClusterName = Field(
        description="The name of the cluster. It labels everything tfprov creates: two inventories with one name are "
        "the same cluster.",
        examples=["linear"],
    )
    image: Annotated[Image | None, BeforeValidator(validators.refuse_short_image)] = Field(
        None,
        description="The image of all containers of the cluster. With an image, tasks run in containers. Its Python may "
        "be of any version; programs that import `tfprov.runtime` need 3.8 or newer. Default: none.",
        examples=[{"build": "../images/train"}],
    )
    deliver: Deliver = Field(
        default_factory=Deliver,
        description="How the image gets to the hosts. Default: the defaults of `from_hosts` and `compress`.",
        examples=[{"from_hosts": "auto"}],
    )
    runtime: Literal["docker", "process"] = Field(
        "process",
        description="What runs a task: `docker`, a container of `image` on its host's engine; `process`, a supervised "
        "process on this machine, without an image. Default: `docker` where `image` is set, else `process`.",
        examples=["process"],
    )
    code: PathText | None = Field(
        None,
        description="The directory with the training program, delivered to every host. Files in its "
        "`.dockerignore`, the inventory's own files and gathered checkpoints are left out. Each task starts in a "
        "copy of it. A relative path is relative to the file that contains it. Default: none.",
        examples=["../images/train/programs"],
    )
    command: Annotated[list[Line], Field(min_length=1), AfterValidator(validators.check_command)] | None = Field(
        None,
        description="The program and its arguments; tfprov appends the wiring (`wiring: flags`) and `flags`. The "
        "roles tensorboard, serving, notebook, dispatcher and data_worker take both from their own group only, and a "
        "tensorboard `env` and `code`, too. Default: the program of these roles; the others need a command.",
        examples=[["python", "linear.py"]],
    )
    python: PathText | None = Field(
        None,
        description="The Python for tasks of the process runtime, for example of a virtual environment: `python` "
        "and `python3` in `command` mean it, its directory is first in PATH, and it can import `tfprov.runtime` (from "
        "3.8 on). A relative path is relative to the file that contains it. Default: `ansible_python_interpreter` if "
        "that is an absolute path, else the Python that runs tfprov.",
        examples=["./venv/bin/python"],
    )
    strategy: setting_types.Strategy = Field(
        "between_graph",
        description="How the program trains: `between_graph`, every worker builds the graph, with the variables "
        "on the ps; `in_graph`, the chief builds one graph over all workers; `parameter_server`, TensorFlow's "
        "ParameterServerStrategy, in which the chief dispatches steps to the workers; `multi_worker_mirrored`, "
        "workers only, which average their gradients; `single`, one task; `standalone`, bare servers for a client "
        "outside of the cluster, see `tfprov client`. The program gets the name in TFPROV_STRATEGY.",
        examples=["parameter_server"],
    )
    wiring: setting_types.Wiring = Field(
        "flags",
        description="How a task gets its job, its index and the addresses of its peers: `flags` appends "
        "--job_name, --task_index, --ps_hosts and --worker_hosts; a mapping renames these flags or, with null, "
        "omits them. TF_CONFIG is always in the environment, except of the one task that trains with `strategy: single`. "
        "Default: `flags`; `tf_config` for `in_graph`, `parameter_server`, `multi_worker_mirrored` and `standalone`.",
        examples=["tf_config"],
    )
    flags: dict[FlagName, Value | None] = Field(
        default_factory=dict,
        description="Flags of the program, appended as `--name=value`, or as `--name` if the value is null. "
        "Positional arguments belong in `command`; the names of `wiring` are reserved.",
        examples=[{"train_steps": 2000}],
    )
    env: dict[EnvName, Value] = Field(
        default_factory=dict,
        description="Environment variables of the task; values are text, so quote values that YAML reads as "
        "another type.",
        examples=[{"TF_CPP_MIN_LOG_LEVEL": "2"}],
    )
    env_file: PathTexts = Field(
        default_factory=list,
        description="A file of environment variables in docker's format, or several, relative to the file that names "
        "them: `NAME=value` lines and `#` comments; quotes and `$` mean nothing, and `NAME` alone is the controller's "
        "variable. `env` wins over all files, a later file over an earlier one. Names with a word such as TOKEN are "
        "secret, as in `env`.",
        examples=[["./train.env"]],
    )
    public_env: list[EnvName] = Field(
        default_factory=list,
        description="Names in `env` that are not secret, although they contain a word such as TOKEN, SECRET, "
        "PASSWORD or KEY. Secret variables reach a container as files on a tmpfs, and `docker inspect` does not "
        "show them.",
        examples=[["SORT_KEY"]],
    )
    checkpoints: CheckpointSetting = Field(
        default_factory=Checkpoints,
        description="Where checkpoints are saved and gathered. `none` is for a program that saves nothing: "
        "otherwise, a `run` without a checkpoint ends with exit code 1. Checkpoints are gathered in both cases. "
        "Default: the defaults of `dir` and `to`.",
        examples=[{"to": "./checkpoints"}],
    )
    data: Annotated[Data | None, BeforeValidator(validators.refuse_short_data)] = Field(
        None,
        description="The training data: a directory on the hosts, or files that the hosts fetch. A ps, a "
        "tensorboard and a model server do not get it. Default: none.",
        examples=[{"path": "/data/mnist"}],
    )
    data_service: Annotated[DataService | None, BeforeValidator(field_types.refuse_short_data_service)] = Field(
        None,
        description="A tf.data service that runs outside of the cluster. Programs get its address in "
        "TFPROV_DATA_SERVICE, as they do with a group `dispatcher`; a group `data_worker` joins it. Default: none.",
        examples=[{"address": "10.0.0.20:5050"}],
    )
    serving: Serving = Field(
        default_factory=Serving,
        description="The model that the group `serving` serves. Default: the newest version in `export`, as `model`.",
        examples=[{"model_name": "digits"}],
    )
    address: Address | None = Field(
        None,
        description="The name or IPv4 address under which the other tasks reach this host. Default: "
        "`ansible_host`, else the host's name; for `ansible_connection: local` 127.0.0.1, or, if tasks run in "
        "containers, the address of the engine's own network.",
        examples=["10.0.0.11"],
    )
    network: Literal["bridge", "host"] = Field(
        "bridge",
        description="The network of a container: `bridge`, where only its own port is published; `host`, that of its host, "
        "for libraries that open further ports, such as NCCL. `host` needs `allow_insecure_network: true`.",
        examples=["host"],
    )
    bind: Annotated[Line, field_types.IP_V4] | None = Field(
        None,
        description="The IPv4 address of the host on which the ports of its containers are published. Default: "
        "`address`, and 127.0.0.1 for a tensorboard, a model server and a notebook, which take it from their group only.",
        examples=["10.0.0.11"],
    )
    allow_insecure_network: bool = Field(
        False,
        description="Allows `bind: 0.0.0.0` and `network: host`, which open ports in all networks of the host. A "
        "TensorFlow server has no authentication: anyone who reaches its port can run code.",
        examples=[True],
    )
    port: Annotated[Count, Field(ge=1, le=65535)] | None = Field(
        None,
        description="The port number of the first task on a host; further tasks there get the following ports. Default: "
        "2222; 6006 for tensorboard, 8501 for serving, 8888 for notebook.",
        examples=[2222],
    )
    tasks_per_host: Annotated[Count, Field(ge=1, le=1000)] = Field(
        1, description="The number of tasks of the role on each of its hosts.", examples=[2]
    )
    memory: setting_types.MemorySize | None = Field(
        None,
        description="The memory limit of a container, in Docker's units b, k, m and g (powers of 1024), at least "
        "6m. Default: no limit.",
        examples=["4g"],
    )
    shm_size: setting_types.MemorySize | None = Field(
        None,
        description="The size of /dev/shm in a container, in the units of `memory`; what is in there counts as its memory. "
        "NCCL and data loaders with worker processes need more than the default. Default: that of the engine, 64m.",
        examples=["1g"],
    )
    cpus: Annotated[float, Field(ge=0.01, le=8192, allow_inf_nan=False)] | None = Field(
        None, description="The number of CPUs that a container may use, in cores. Default: no limit.", examples=[2.5]
    )
    gpus: setting_types.Gpus = Field(
        0,
        description="The number of GPUs of a container, or `all`. Only a chief, workers and an evaluator get them "
        "from other places than their own group or host.",
        examples=[1],
    )
    devices: setting_types.Devices = Field(default_factory=list)
    pids: Annotated[Count, Field(ge=64, le=4194304)] = Field(
        4096, description="The limit of processes and threads in a container.", examples=[4096]
    )
    ulimits: setting_types.Ulimits = Field(default_factory=dict)
    user: setting_types.User = Field(
        None,
        description="The user that containers run as: a number, or a name from the image, optionally with a colon and a "
        "group. The checkpoint directory and secrets belong to that user. With a number, HOME is /tmp unless `env` "
        "says otherwise. `tfprov check` warns about root. Default: the user of the image.",
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
        description="Directories of the host that are mounted in its containers.",
        examples=[[{"source": "/data/mnist", "target": "/data"}]],
    )
    restart: Literal["never", "on-failure"] = Field(
        "on-failure",
        description="Whether a task that exits with a code other than 0 is started again on its host.",
        examples=["never"],
    )
    max_restarts: Annotated[Count, Field(ge=1, le=1000)] = Field(
        3,
        description="The limit of restarts of a task that keeps failing; with the same error, it is restarted only once.",
        examples=[3],
    )
    restart_on: list[ExitCode] = Field(
        default_factory=list,
        description="Exit codes after which a task is started again; after others it is not. 137 is SIGKILL, which the "
        "kernel sends when memory runs out. Default: all but 0.",
        examples=[[137, 143]],
    )
    no_restart_on: list[ExitCode] = Field(
        default_factory=list,
        description="Exit codes after which a task is not started again, for failures that a restart would repeat.",
        examples=[[2, 78]],
    )
    deadline: Span | None = Field(
        None,
        description="The time that `run` gives a training, in the foreground or detached: a number and `s`, `m`, `h` or "
        "`d`. When it is over, the chief saves, the checkpoints are gathered, the cluster is taken down, and `run` ends "
        "with exit code 124. Default: no limit.",
        examples=["12h"],
    )
    notify: list[Notify] = Field(
        default_factory=list,
        description="Commands and webhooks that are notified of the end of a run and of its trouble, see docs/training.md. "
        "Default: none.",
        examples=[[{"command": ["./notify.sh"], "events": ["failed"]}]],
    )
    ready: Literal["port", "start"] = Field(
        "port",
        description="When a task counts as ready: `port`, when it answers on its port, as every TensorFlow server "
        "does; `start`, when it runs, for a program that opens no port.",
        examples=["start"],
    )
    start_timeout: Annotated[Count, Field(ge=1, le=86400)] = Field(
        120, description="The seconds from a task's start until it must answer on its port.", examples=[300]
    )
    stop_grace: Annotated[Count, Field(ge=0, le=86400)] = Field(
        30,
        description="The seconds between SIGTERM and SIGKILL, in which the chief saves a checkpoint.",
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
        return not isinstance(self.checkpoints, NoCheckpoints) and self.strategy != STANDALONE

    @property
    def flag_names(self) -> Mapping[str, str]:
        """The renamed flags without dashes, by their usual names; an empty text for a flag that is left out."""
        return setting_types.renamed_flags(self.wiring)

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, values: Any) -> Any:
        """Fill in defaults that depend on other settings."""
        return setting_types.with_implied(values)
