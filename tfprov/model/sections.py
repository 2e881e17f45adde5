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
    link: Annotated[Line, field_types.LINK] | None = Field(
        None,
        description="For programs that save to a relative path: this name, in the working directory of every task, leads "
        "to the checkpoint directory. Under the process runtime it is the chief's for all tasks; in a container it is the "
        "task's own, which an evaluator and a tensorboard share with the chief. The code must have nothing of that name. "
        "Default: none.",
        examples=["logdir"],
    )


class End(StrictModel):
    """What happens when the chief is done."""

    wait: Annotated[Count, Field(ge=0, le=86400)] = Field(
        0,
        description="How many seconds `run` and `wait` give a worker that still trains, or an evaluator that has not "
        "evaluated the last checkpoint, once the chief is done. Tasks that still run after that are reported.",
        examples=[60],
    )


class NoCheckpoints(Checkpoints):
    """`checkpoints: none`: the program saves no checkpoints."""


class Image(StrictModel):
    """The image of containers: exactly one of `build`, `name` and `archive`, which `role_rules` checks."""

    build: PathText | None = Field(
        None,
        description="A directory with a Dockerfile; the image is built from it. A relative path counts from the file it "
        "is written in. Default: none; one of `build`, `name` and `archive` is given.",
        examples=["../images/train"],
    )
    name: Annotated[Line, field_types.IMAGE_NAME] | None = Field(
        None,
        description="An image in a registry, which the hosts' engines pull: `repository[:tag][@sha256:…]`. Only a digest "
        "pins the image. Default: none.",
        examples=["registry.example.com/train:1.0"],
    )
    archive: PathText | None = Field(
        None,
        description="A file that `docker save` wrote, or an OCI archive. A relative path counts from the file it is "
        "written in. Default: none.",
        examples=["../train.tar"],
    )
    dockerfile: Annotated[Line, field_types.DOCKERFILE] = Field(
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
        """Which of the three is set."""
        return "build" if self.build is not None else "name" if self.name is not None else "archive"


class MountSetting(StrictModel):
    """A directory or file of the host inside the containers on it."""

    source: Annotated[Line, field_types.HOST_PATH] = Field(
        description="An absolute path on the host; it must exist there.", examples=["/data/mnist"]
    )
    target: Annotated[Line, field_types.DIRECTORY] = Field(
        description="Where it is in the container: an absolute path, apart from the checkpoint directory and from /code.",
        examples=["/data"],
    )
    read_only: bool = Field(True, description="Whether tasks may only read it.", examples=[False])


class FlagNames(StrictModel):
    """The program's names of the four wiring flags; null for a flag that it does not have."""

    job_name: FlagWord | None = Field(
        "--job_name", description="The flag that gets the task's job; null leaves it out.", examples=["--job"]
    )
    task_index: FlagWord | None = Field(
        "--task_index", description="The flag that gets its index; null leaves it out.", examples=["--index"]
    )
    ps_hosts: FlagWord | None = Field(
        "--ps_hosts", description="The flag that gets the addresses of all ps; null leaves it out.", examples=["--ps"]
    )
    worker_hosts: FlagWord | None = Field(
        "--worker_hosts",
        description="The flag that gets the addresses of all workers; null leaves it out.",
        examples=["--workers"],
    )


class RenamedFlags(StrictModel):
    """The wiring by flags with other names."""

    flags: FlagNames = Field(
        default_factory=FlagNames,
        description="What the program calls the four flags, where it has other names for them; null for a flag that it "
        "does not know.",
        examples=[{"job_name": "--job", "task_index": "--index"}],
    )


_SUM = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


class DataSource(StrictModel):
    """A file that hosts fetch from the web."""

    url: Annotated[Line, field_types.URL] = Field(
        description="Where the file is: http or https, as the hosts reach it, and without a password. Another address for "
        "the same file restarts nothing.",
        examples=["https://example.com/mnist/train.tfrecords"],
    )
    sha256: Annotated[Line, field_types.SHA256] = Field(
        description="The SHA-256 of the file, as `sha256sum` prints it: what differs is never used.",
        examples=[_SUM],
    )
    name: Annotated[Line, field_types.FILE_NAME] | None = Field(
        None,
        description="What the file is called in the directory. Default: the last part of `url`.",
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
        description="The directory with the data on every host that reads it. A relative path counts from the file it is "
        "written in, and is for this machine only. Default: none; one of `path` and `fetch` is given.",
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
        description="Files that every host which reads them fetches for itself, once, and verifies before anything is "
        "started; all its tasks share them. Under the docker runtime Python in the image does it. Default: none.",
        examples=[[{"sha256": _SUM, "url": "https://example.com/mnist/train.tfrecords"}]],
    )
    to: Annotated[Line, field_types.DIRECTORY] = Field(
        "/data",
        description="Where it is in containers, which may only read it. Under the process runtime tasks read it where it "
        "is; programs find it in TFPROV_DATA_DIR and as `{{ data_dir }}`.",
        examples=["/data"],
    )
