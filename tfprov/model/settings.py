"""The `tfprov:` namespace: every setting with its type, default, unit and an example, in this one place."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tfprov.model import checks
from tfprov.wiring import FLAGS


class Strict(BaseModel):
    """A mapping with no unknown keys and no silent conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Line = Annotated[str, AfterValidator(checks.one_line)]
Count = Annotated[int, BeforeValidator(checks.whole_number)]
Value = Line | int | float | bool
ClusterName = Annotated[
    str,
    checks.matching(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", "lower-case letters, digits and `-`, at most 40 of them"),
]
FlagName = Annotated[
    str,
    checks.named(
        "a flag",
        r"[A-Za-z][A-Za-z0-9_.-]*",
        "use letters, digits, `_`, `.` and `-`, beginning with a letter",
        "|".join(FLAGS),
    ),
]
EnvName = Annotated[
    str,
    checks.named(
        "an environment variable",
        r"[A-Za-z_][A-Za-z0-9_]*",
        "use letters, digits and `_`, beginning with a letter",
        "TF_CONFIG|TFPROV_.*",
    ),
]
Address = Annotated[str, AfterValidator(checks.address)]
PathText = Annotated[Line, AfterValidator(checks.path)]


class Checkpoints(Strict):
    """Where the chief saves, and where `gather` puts what it brings back."""

    dir: Annotated[Line, AfterValidator(checks.absolute_apart)] = Field(
        "/checkpoints",
        description="The chief's checkpoint directory inside its container. Under the process runtime it is a directory "
        "of the task's own, whatever this says; programs find it in TFPROV_CHECKPOINT_DIR and as `{{ checkpoint_dir }}`.",
        examples=["/checkpoints"],
    )
    to: PathText = Field(
        "./checkpoints",
        description="Where gathered checkpoints go on the controller, in a directory named after the cluster. A relative "
        "path counts from the file it is written in.",
        examples=["./checkpoints"],
    )


class Settings(Strict):
    """What one task's host and groups say about it."""

    cluster: ClusterName = Field(
        description="The name of the cluster. It labels everything tfprov creates: two inventories with one name are "
        "the same cluster.",
        examples=["linear"],
    )
    runtime: Literal["process"] = Field(
        "process",
        description="What runs a task: `process` is a supervised process of the host itself, without an image.",
        examples=["process"],
    )
    code: PathText | None = Field(
        None,
        description="The directory with the training program, delivered to every host as it is; `.dockerignore` in it is "
        "respected. Tasks start in it. A relative path counts from the file it is written in.",
        examples=["../images/train/programs"],
    )
    command: Annotated[list[Line], Field(min_length=1), AfterValidator(checks.program)] | None = Field(
        None,
        description="The program and its arguments; tfprov appends the wiring (`wiring: flags`) and `flags`.",
        examples=[["python", "linear.py"]],
    )
    wiring: Literal["flags", "tf_config"] = Field(
        "flags",
        description="How the task learns who it is: `flags` appends --job_name, --task_index, --ps_hosts and "
        "--worker_hosts. TF_CONFIG is in the environment either way.",
        examples=["tf_config"],
    )
    flags: dict[FlagName, Value | None] = Field(
        default_factory=dict,
        description="Flags of the program, appended as `--name=value`, and as `--name` alone where the value is null.",
        examples=[{"train_steps": 2000}],
    )
    env: dict[EnvName, Value] = Field(
        default_factory=dict,
        description="Environment variables of the task.",
        examples=[{"TF_CPP_MIN_LOG_LEVEL": "2"}],
    )
    checkpoints: Checkpoints = Field(
        default_factory=Checkpoints,
        description="Where checkpoints are saved and gathered.",
        examples=[{"to": "./checkpoints"}],
    )
    address: Address | None = Field(
        None,
        description="The name or IPv4 address under which the other tasks reach this host. Default: `ansible_host`, else "
        "the host's name; 127.0.0.1 for `ansible_connection: local`.",
        examples=["10.0.0.11"],
    )
    port: Annotated[Count, Field(ge=1, le=65535)] | None = Field(
        None,
        description="The port of the first task on a host; further tasks there take the ports that follow. Default: 2222, "
        "and 6006 for tensorboard.",
        examples=[2222],
    )
    tasks_per_host: Annotated[Count, Field(ge=1, le=1000)] = Field(
        1, description="How many tasks of the role run on each of its hosts.", examples=[2]
    )
    restart: Literal["never", "on-failure"] = Field(
        "never",
        description="Whether a task that ends with an exit code other than 0 is started again where it is.",
        examples=["on-failure"],
    )
    max_restarts: Annotated[Count, Field(ge=1, le=1000)] = Field(
        3, description="After how many restarts a task that keeps failing is left alone.", examples=[3]
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


SHARED = ("cluster", "runtime", "wiring")
"""Settings that must be the same for every task of an inventory."""
