"""pydantic models of the mappings under `tfprov:`, and the types of its settings."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tfprov.model import field_types, validators


class StrictModel(BaseModel):
    """A frozen mapping without unknown keys or type conversions."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Line = Annotated[str, field_types.LINE]
Count = Annotated[int, BeforeValidator(validators.refuse_fraction)]
Value = Line | int | float | bool
ClusterName = Annotated[
    str,
    field_types.pattern_format(
        r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", "lower-case letters, digits and `-`, at most 40 of them"
    ),
]
FlagName = Annotated[
    str,
    field_types.key_format(
        "a flag",
        r"[A-Za-z][A-Za-z0-9_.-]*",
        "use letters, digits, `_`, `.` and `-`, beginning with a letter",
        r"(?!)",
    ),
]
FlagWord = Annotated[str, field_types.pattern_format(r"--[A-Za-z][A-Za-z0-9_.-]*", "a flag with its two dashes")]
EnvName = Annotated[
    str,
    field_types.key_format(
        "an environment variable",
        r"[A-Za-z_][A-Za-z0-9_]*",
        "use letters, digits and `_`, beginning with a letter",
        "TF_CONFIG|TFPROV_.*",
    ),
]
ArgName = Annotated[
    str,
    field_types.key_format(
        "a build argument",
        r"[A-Za-z_][A-Za-z0-9_]*",
        "use letters, digits and `_`, beginning with a letter",
        r"(?!)",
    ),
]
Address = Annotated[str, field_types.ADDRESS]
PathText = Annotated[Line, field_types.PATH]
PathTexts = Annotated[
    list[PathText],
    BeforeValidator(
        lambda value: [value] if isinstance(value, str) else value, json_schema_input_type=PathText | list[PathText]
    ),
]
"""Paths; a single one need not be a list."""


def _require_time_unit(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        example = f"{value}s" if isinstance(value, int) and 0 < value < 10**6 else "10m"
        raise validators.InvalidValue(f"must be a number and `s`, `m`, `h` or `d`, such as `{example}`, not {value}")
    return value


Span = Annotated[
    str,
    BeforeValidator(_require_time_unit),
    field_types.pattern_format(r"[1-9][0-9]{0,5}[smhd]", "a number and `s`, `m`, `h` or `d`, such as `10m`"),
]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def span_seconds(span: str) -> float:
    """Return the seconds of a Span."""
    return float(span[:-1]) * _UNITS[span[-1]]


ExitCode = Annotated[int, Field(ge=1, le=255)]
NotifyEvent = Literal["ended", "failed", "crash_loop", "host_lost", "straggler", "stalled"]
NOTIFY_EVENTS: tuple[NotifyEvent, ...] = get_args(NotifyEvent)


class Notify(StrictModel):
    """A target of notifications about a run: exactly one of `command` and `url`, which `role_rules` checks."""

    command: Annotated[list[Line], Field(min_length=1)] | Line | None = Field(
        None,
        description="A program on the controller and its arguments, run without a shell. It gets the event as JSON on "
        "its standard input and in variables such as TFPROV_EVENT and TFPROV_TEXT. Default: none; one of `command` and "
        "`url` is required.",
        examples=[["mail", "-s", "training", "me@example.com"]],
    )
    url: Annotated[Line, field_types.URL] | None = Field(
        None,
        description="The URL (http or https) of a webhook, which gets the event as JSON by POST. It may be encrypted with "
        "ansible-vault, and is never shown. Default: none.",
        examples=["https://hooks.example.com/services/training"],
    )
    events: list[NotifyEvent] = Field(
        default_factory=lambda: list(NOTIFY_EVENTS),
        description="What is sent: `ended` (the run ended without failing), `failed`, `crash_loop` (a task is not "
        "restarted any more), `host_lost`, `straggler` (a task makes no step), `stalled` (no task makes one). Default: all "
        "of them.",
        examples=[["failed", "host_lost"]],
    )


class DataService(StrictModel):
    """A tf.data service that is not part of the cluster."""

    address: Annotated[Line, field_types.ENDPOINT] = Field(
        description="The address and port of its dispatcher, which every host that reads the data must reach.",
        examples=["10.0.0.20:5050"],
    )

    @property
    def endpoint(self) -> str:
        """The address and port without a scheme."""
        return self.address.removeprefix("grpc://")


class Serving(StrictModel):
    """What a model server loads, and which one it is."""

    server: Literal["tfprov", "tensorflow_serving"] = Field(
        "tfprov",
        description="The program: `tfprov`, a small server of tfprov's runtime, which needs TensorFlow only and answers "
        "`predict`, `metadata` and the state of versions; `tensorflow_serving`, `tensorflow_model_server` of the image.",
        examples=["tensorflow_serving"],
    )
    model_name: Annotated[
        Line, field_types.pattern_format(r"[A-Za-z0-9_.-]{1,100}", "letters, digits, `_`, `.` and `-`")
    ] = Field("model", description="The name of the model in URLs: /v1/models/NAME:predict.", examples=["digits"])
    model_base_path: Annotated[Line, field_types.DATA] = Field(
        "export",
        description="The directory with the exported versions: numbered directories, each with a SavedModel, as "
        "`task.export` writes them. A relative path is relative to the chief's checkpoint directory. A URL needs "
        "`server: tensorflow_serving`.",
        examples=["export"],
    )


class End(StrictModel):
    """What happens when the chief is done."""

    wait: Annotated[Count, Field(ge=0, le=86400)] = Field(
        0,
        description="The seconds that `run` and `wait` give, after the chief is done, to workers that still train "
        "and to an evaluator that has not evaluated the last checkpoint. Tasks that run longer are reported.",
        examples=[60],
    )


class Image(StrictModel):
    """The image of containers: exactly one of `build`, `name` and `archive`, which `role_rules` checks."""

    build: PathText | None = Field(
        None,
        description="The directory with the Dockerfile to build, by BuildKit if it needs that. A relative path is relative "
        "to the file that contains it. Default: none; one of `build`, `name` and `archive` is required.",
        examples=["../images/train"],
    )
    name: Annotated[Line, field_types.IMAGE_NAME] | None = Field(
        None,
        description="An image in a registry, pulled by the hosts' engines: `repository[:tag][@sha256:…]`. Only a "
        "digest pins the image. Default: none.",
        examples=["registry.example.com/train:1.0"],
    )
    archive: PathText | None = Field(
        None,
        description="An archive of `docker save`, or an OCI archive. A relative path is relative to the file that "
        "contains it. Default: none.",
        examples=["../train.tar"],
    )
    dockerfile: Annotated[Line, field_types.DOCKERFILE] = Field(
        "Dockerfile",
        description="With `build`: the path of the Dockerfile inside the directory.",
        examples=["Dockerfile"],
    )
    build_args: dict[ArgName, Value] = Field(
        default_factory=dict,
        description="With `build`: values for the `ARG`s of the Dockerfile. The image's history shows them: do "
        "not put secrets here.",
        examples=[{"TENSORFLOW": "2.18.0"}],
    )
    build_on: Line | None = Field(
        None,
        description="With `build`: the host whose engine builds the image. It needs no role. Default: the "
        "controller's own engine.",
        examples=["node1"],
    )
    ca_bundle: PathText | None = Field(
        None,
        description="With `build`: a file with the certificates (PEM) of a TLS-inspecting proxy, trusted during "
        "the build only. Default: the file that PIP_CERT, REQUESTS_CA_BUNDLE or SSL_CERT_FILE names on the "
        "controller.",
        examples=["/etc/ssl/certs/proxy.pem"],
    )
    pip_conf: PathText | None = Field(
        None,
        description="With `build`: a pip.conf for the build, for example with your own package index; it is not "
        "in the image. Default: none.",
        examples=["~/.config/pip/pip.conf"],
    )

    @property
    def kind(self) -> Literal["build", "name", "archive"]:
        """Which of the three is set."""
        return "build" if self.build is not None else "name" if self.name is not None else "archive"


class NfsExport(StrictModel):
    """A directory of an NFS server, which the host's engine mounts as a volume."""

    server: Address = Field(
        description="The name or IPv4 address of the server, as the host reaches it.", examples=["10.0.0.9"]
    )
    path: Annotated[Line, field_types.HOST_PATH] = Field(
        description="The exported directory.", examples=["/export/mnist"]
    )
    options: Annotated[Line, field_types.MOUNT_OPTIONS] = Field(
        "nfsvers=4",
        description="Mount options of NFS, with commas between them (`man 5 nfs`). The server's address and `ro` are "
        "added.",
        examples=["nfsvers=4.2,soft,timeo=100"],
    )

    def volume_options(self, *, read_only: bool) -> tuple[tuple[str, str], ...]:
        """Return the options of the engine's driver `local` for a volume."""
        options = [f"addr={self.server}", "ro" if read_only else "rw", self.options]
        return ("type", "nfs"), ("o", ",".join(options)), ("device", f":{self.path}")


class MountSetting(StrictModel):
    """A directory inside containers: of their host (`source`), or of an NFS server (`nfs`); exactly one of both."""

    source: Annotated[Line, field_types.HOST_PATH] | None = Field(
        None,
        description="An absolute path on the host; it must exist there. Default: none; one of `source` and `nfs` is "
        "required.",
        examples=["/data/mnist"],
    )
    nfs: NfsExport | None = Field(
        None,
        description="A directory of an NFS server. The host needs the NFS client of its kernel. Default: none.",
        examples=[{"path": "/export/mnist", "server": "10.0.0.9"}],
    )
    target: Annotated[Line, field_types.DIRECTORY] = Field(
        description="The absolute path in the container, outside of the checkpoint directory and of /code.",
        examples=["/data"],
    )
    read_only: bool = Field(True, description="Whether the mount is read-only.", examples=[False])


class FlagNames(StrictModel):
    """The program's names of the four wiring flags; null for a flag that it does not have."""

    job_name: FlagWord | None = Field(
        "--job_name", description="The flag for the task's job; null omits it.", examples=["--job"]
    )
    task_index: FlagWord | None = Field(
        "--task_index", description="The flag for the task's index; null omits it.", examples=["--index"]
    )
    ps_hosts: FlagWord | None = Field(
        "--ps_hosts", description="The flag for the addresses of all ps; null omits it.", examples=["--ps"]
    )
    worker_hosts: FlagWord | None = Field(
        "--worker_hosts",
        description="The flag for the addresses of all workers; null omits it.",
        examples=["--workers"],
    )


class RenamedFlags(StrictModel):
    """The wiring by flags with other names."""

    flags: FlagNames = Field(
        default_factory=FlagNames,
        description="The program's names for the four flags; null omits a flag.",
        examples=[{"job_name": "--job", "task_index": "--index"}],
    )
