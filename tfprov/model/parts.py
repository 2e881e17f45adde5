"""The mappings within the `tfprov:` namespace, and the types that its settings are made of."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

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
FlagWord = Annotated[str, forms.matching(r"--[A-Za-z][A-Za-z0-9_.-]*", "a flag with its two dashes")]
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


class FlagNames(Strict):
    """What the program calls the four flags."""

    job_name: FlagWord = Field("--job_name", description="The flag that gets the task's job.", examples=["--job"])
    task_index: FlagWord = Field("--task_index", description="The flag that gets its index.", examples=["--index"])
    ps_hosts: FlagWord = Field(
        "--ps_hosts", description="The flag that gets the addresses of all ps.", examples=["--ps"]
    )
    worker_hosts: FlagWord = Field(
        "--worker_hosts", description="The flag that gets the addresses of all workers.", examples=["--workers"]
    )


class Renamed(Strict):
    """The wiring by flags, under other names than the usual ones."""

    flags: FlagNames = Field(
        default_factory=FlagNames,
        description="What the program calls the four flags, where it has other names for them.",
        examples=[{"job_name": "--job", "task_index": "--index"}],
    )


class Data(Strict):
    """Data that lies on the hosts already."""

    path: Annotated[PathText, forms.DATA] = Field(
        description="The directory with the data on every host that reads it. A relative path counts from the file it is "
        "written in, and is for this machine only.",
        examples=["/data/mnist"],
    )
    to: Annotated[Line, forms.DIRECTORY] = Field(
        "/data",
        description="Where it is in containers, which may only read it. Under the process runtime tasks read it where it "
        "is; programs find it in TFPROV_DATA_DIR and as `{{ data_dir }}`.",
        examples=["/data"],
    )
