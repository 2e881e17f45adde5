"""pydantic models of the mappings under `tfprov:`, and the types of its settings."""

from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

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


class Checkpoints(StrictModel):
    """Where the chief saves, and where `gather` copies its checkpoints to."""

    dir: Annotated[Line, field_types.DIRECTORY] = Field(
        "/checkpoints",
        description="The chief's checkpoint directory inside its container. Under the process runtime, each task "
        "has a directory of its own and this setting has no effect. Programs get the path in TFPROV_CHECKPOINT_DIR "
        "and as `{{ checkpoint_dir }}`.",
        examples=["/checkpoints"],
    )
    to: PathText = Field(
        "./checkpoints",
        description="The directory for gathered checkpoints on the controller, in a subdirectory with the "
        "cluster's name. A relative path is relative to the file that contains it.",
        examples=["./checkpoints"],
    )
    link: Annotated[Line, field_types.LINK] | None = Field(
        None,
        description="For programs that save to a relative path: this name, in the working directory of every "
        "task, is a link to the checkpoint directory. Under the process runtime it is the chief's for all tasks; in "
        "a container it is the task's own, which an evaluator and a tensorboard share with the chief. The code must "
        "not contain that name. Default: none.",
        examples=["logdir"],
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
        "`task.export` writes them. A relative path is relative to the chief's checkpoint directory.",
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


class NoCheckpoints(Checkpoints):
    """`checkpoints: none`: the program saves no checkpoints."""


class Image(StrictModel):
    """The image of containers: exactly one of `build`, `name` and `archive`, which `role_rules` checks."""

    build: PathText | None = Field(
        None,
        description="The directory with the Dockerfile to build. A relative path is relative to the file that "
        "contains it. Default: none; one of `build`, `name` and `archive` is required.",
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


class MountSetting(StrictModel):
    """A directory or file of the host inside the containers on it."""

    source: Annotated[Line, field_types.HOST_PATH] = Field(
        description="An absolute path on the host; it must exist there.", examples=["/data/mnist"]
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


_SUM = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


class DataSource(StrictModel):
    """A file that hosts fetch from the web."""

    url: Annotated[Line, field_types.URL] = Field(
        description="The URL of the file (http or https) as seen from the hosts, without a password. A changed "
        "URL for the same file restarts nothing.",
        examples=["https://example.com/mnist/train.tfrecords"],
    )
    sha256: Annotated[Line, field_types.SHA256] = Field(
        description="The SHA-256 of the file, as `sha256sum` prints it. A file with another sum is never used.",
        examples=[_SUM],
    )
    name: Annotated[Line, field_types.FILE_NAME] | None = Field(
        None,
        description="The file's name in the directory. Default: the last part of `url`.",
        examples=["train.tfrecords"],
    )

    @property
    def file(self) -> str:
        """The name of the file; empty if `url` does not end in one."""
        return self.name or unquote(urlsplit(self.url).path.rpartition("/")[2])


class Data(StrictModel):
    """Training data: exactly one of `path` and `fetch`, which `role_rules` checks."""

    path: Annotated[PathText, field_types.DATA] | None = Field(
        None,
        description="The directory with the data on every host that reads it. A relative path is relative to the "
        "file that contains it, and only for this machine. Default: none; one of `path` and `fetch` is required.",
        examples=["/data/mnist"],
    )
    fetch: (
        Annotated[
            list[Annotated[DataSource, BeforeValidator(validators.refuse_short_source)]],
            Field(min_length=1),
            BeforeValidator(validators.refuse_single_source),
        ]
        | None
    ) = Field(
        None,
        description="Files that each host that needs them fetches once and verifies before anything is started; "
        "its tasks share them. The docker runtime uses the image's Python to fetch them. Default: none.",
        examples=[[{"sha256": _SUM, "url": "https://example.com/mnist/train.tfrecords"}]],
    )
    to: Annotated[Line, field_types.DIRECTORY] = Field(
        "/data",
        description="The path of the read-only mount in containers. Under the process runtime tasks read the data "
        "in place. Programs get the path in TFPROV_DATA_DIR and as `{{ data_dir }}`.",
        examples=["/data"],
    )
