"""The `tfprov:` namespace: every setting with its type, default, unit and an example, in this one place."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tfprov.model import checks, forms
from tfprov.wiring import FLAGS


class Strict(BaseModel):
    """A mapping with no unknown keys and no silent conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Line = Annotated[str, forms.LINE]
Count = Annotated[int, BeforeValidator(checks.whole_number)]
Value = Line | int | float | bool
ClusterName = Annotated[
    str,
    forms.matching(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", "lower-case letters, digits and `-`, at most 40 of them"),
]
FlagName = Annotated[
    str,
    forms.named(
        "a flag",
        r"[A-Za-z][A-Za-z0-9_.-]*",
        "use letters, digits, `_`, `.` and `-`, beginning with a letter",
        "|".join(FLAGS),
    ),
]
EnvName = Annotated[
    str,
    forms.named(
        "an environment variable",
        r"[A-Za-z_][A-Za-z0-9_]*",
        "use letters, digits and `_`, beginning with a letter",
        "TF_CONFIG|TFPROV_.*",
    ),
]
ArgName = Annotated[
    str,
    forms.named(
        "a build argument",
        r"[A-Za-z_][A-Za-z0-9_]*",
        "use letters, digits and `_`, beginning with a letter",
        r"(?!)",
    ),
]
Address = Annotated[str, forms.ADDRESS]
PathText = Annotated[Line, forms.PATH]


class Checkpoints(Strict):
    """Where the chief saves, and where `gather` puts what it brings back."""

    dir: Annotated[Line, forms.DIRECTORY] = Field(
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


class Image(Strict):
    """What containers are made from: exactly one of `build`, `name` and `archive`, which config checks with its line."""

    build: PathText | None = Field(
        None,
        description="A directory with a Dockerfile; the image is built from it. A relative path counts from the file it "
        "is written in. Default: none; one of `build`, `name` and `archive` is given.",
        examples=["../images/train"],
    )
    name: Annotated[Line, forms.IMAGE_NAME] | None = Field(
        None,
        description="An image in a registry, which the hosts' engines pull: `repository[:tag][@sha256:…]`. Only one with "
        "a digest is the same image tomorrow. Default: none.",
        examples=["registry.example.com/train:1.0"],
    )
    archive: PathText | None = Field(
        None,
        description="A file that `docker save` wrote, or an OCI archive. A relative path counts from the file it is "
        "written in. Default: none.",
        examples=["../train.tar"],
    )
    dockerfile: Annotated[Line, forms.DOCKERFILE] = Field(
        "Dockerfile",
        description="Beside `build`: the path of the Dockerfile inside the directory.",
        examples=["Dockerfile"],
    )
    build_args: dict[ArgName, Value] = Field(
        default_factory=dict,
        description="Beside `build`: values for the `ARG`s of the Dockerfile. They can be read in the image's history: "
        "nothing secret belongs here.",
        examples=[{"TENSORFLOW": "2.18.0"}],
    )
    build_on: Line | None = Field(
        None,
        description="Beside `build`: the host of the inventory whose engine builds. It needs no role. Default: the "
        "controller's own engine.",
        examples=["node1"],
    )
    ca_bundle: PathText | None = Field(
        None,
        description="Beside `build`: a file with the certificates (PEM) of a proxy that inspects TLS, trusted during the "
        "build and left out of the image. Default: the file that PIP_CERT, REQUESTS_CA_BUNDLE or SSL_CERT_FILE names on "
        "the controller.",
        examples=["/etc/ssl/certs/proxy.pem"],
    )
    pip_conf: PathText | None = Field(
        None,
        description="Beside `build`: a pip.conf for the build, such as one that names an index of your own; it is left out "
        "of the image. Default: none.",
        examples=["~/.config/pip/pip.conf"],
    )

    @property
    def kind(self) -> Literal["build", "name", "archive"]:
        """Which of the three it is made from."""
        return "build" if self.build is not None else "name" if self.name is not None else "archive"


class MountSetting(Strict):
    """A directory or file of the host inside the containers on it."""

    source: Annotated[Line, forms.HOST_PATH] = Field(
        description="An absolute path on the host; it must exist there.", examples=["/data/mnist"]
    )
    target: Annotated[Line, forms.DIRECTORY] = Field(
        description="Where it is in the container: an absolute path, apart from the checkpoint directory and from /code.",
        examples=["/data"],
    )
    read_only: bool = Field(True, description="Whether tasks may only read it.", examples=[False])


def implied_runtime(image: object) -> str:
    """Return the runtime where none is stated: an image says that tasks run in containers."""
    return "process" if image is None else "docker"


class Settings(Strict):
    """What one task's host and groups say about it."""

    cluster: ClusterName = Field(
        description="The name of the cluster. It labels everything tfprov creates: two inventories with one name are "
        "the same cluster.",
        examples=["linear"],
    )
    image: Annotated[Image | None, BeforeValidator(checks.no_short_image)] = Field(
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
        "respected. Tasks start in it. A relative path counts from the file it is written in. "
        "Default: none.",
        examples=["../images/train/programs"],
    )
    command: Annotated[list[Line], Field(min_length=1), AfterValidator(checks.program)] | None = Field(
        None,
        description="The program and its arguments; tfprov appends the wiring (`wiring: flags`) and `flags`. "
        "Default: none; every role but tensorboard needs one.",
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
        description="Environment variables of the task; values are text, so quote what YAML takes for something else.",
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
        "the host's name; for `ansible_connection: local` 127.0.0.1, or where tasks run in containers the address of the "
        "engine's own network.",
        examples=["10.0.0.11"],
    )
    bind: Annotated[Line, forms.IP_V4] | None = Field(
        None,
        description="The IPv4 address of the host on which the ports of its containers are published. Default: `address`.",
        examples=["10.0.0.11"],
    )
    allow_insecure_network: bool = Field(
        False,
        description="Allows `bind: 0.0.0.0`, which publishes ports in all networks of the host. A TensorFlow server asks "
        "for no password: whoever reaches its port can run code.",
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
    memory: Annotated[str, BeforeValidator(checks.with_unit), forms.MEMORY] | None = Field(
        None,
        description="How much memory a container may use, in Docker's units b, k, m and g (powers of 1024), at least 6m. "
        "Default: no limit.",
        examples=["4g"],
    )
    cpus: Annotated[float, Field(ge=0.01, le=8192, allow_inf_nan=False)] | None = Field(
        None, description="How many CPUs a container may use, in cores. Default: no limit.", examples=[2.5]
    )
    gpus: Annotated[Annotated[int, Field(ge=0, le=checks.MOST_GPUS)] | Literal["all"], BeforeValidator(checks.gpus)] = (
        Field(
            0,
            description="How many GPUs a container gets, or `all`. A ps gets none unless the group `ps` itself or its host "
            "says so.",
            examples=[1],
        )
    )
    pids: Annotated[Count, Field(ge=64, le=4194304)] = Field(
        4096, description="How many processes and threads a container may have.", examples=[4096]
    )
    mounts: list[Annotated[MountSetting, BeforeValidator(checks.no_short_mount)]] = Field(
        default_factory=list,
        description="Directories of the host inside its containers.",
        examples=[[{"source": "/data/mnist", "target": "/data"}]],
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

    @model_validator(mode="before")
    @classmethod
    def _choose_runtime(cls, values: Any) -> Any:
        """An image says that tasks run in containers, unless `runtime` says something else."""
        if not isinstance(values, dict) or "runtime" in values:
            return values
        return {**values, "runtime": implied_runtime(values.get("image"))}


SHARED = ("cluster", "image", "runtime", "wiring")
"""Settings that must be the same for every task of an inventory."""

CONTAINER_ONLY = ("memory", "cpus", "gpus", "pids", "mounts", "bind", "allow_insecure_network")
"""Settings that mean something under `runtime: docker` only."""
