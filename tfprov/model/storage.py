"""pydantic models of `checkpoints` and `data`: where they lie."""

from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import BeforeValidator, Field

from tfprov.filesystems.urls import scheme_of
from tfprov.model import field_types, validators
from tfprov.model.sections import Line, PathText, Span, StrictModel

LOCAL_CHECKPOINTS = "/checkpoints"
"""The default checkpoint directory of a container."""


class Checkpoints(StrictModel):
    """Where the chief saves, and where `gather` copies its checkpoints to."""

    dir: Annotated[Line, field_types.CHECKPOINT_DIR] = Field(
        LOCAL_CHECKPOINTS,
        description="The chief's checkpoint directory inside its container. Under the process runtime, each task "
        "has a directory of its own and a path has no effect. Programs get the path in TFPROV_CHECKPOINT_DIR "
        "and as `{{ checkpoint_dir }}`. A URL (`s3://bucket/run`, `hdfs://namenode:8020/run`, `gs://bucket/run`) is "
        "a directory to which every checkpoint is copied, and from which the newest is restored on any host; the "
        "program then saves to the default directory. Credentials are variables in `env`.",
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

    every: Span | None = Field(
        None,
        description="How often `run`, in the foreground or detached, gathers new checkpoints while the training goes on: a "
        "number and `s`, `m`, `h` or `d`. Default: at the end only.",
        examples=["10m"],
    )

    @property
    def local(self) -> str:
        """The directory in a container."""
        return LOCAL_CHECKPOINTS if scheme_of(self.dir) else self.dir

    @property
    def remote(self) -> str | None:
        """The URL of the directory to which checkpoints are copied; None without one."""
        return self.dir if scheme_of(self.dir) else None


class NoCheckpoints(Checkpoints):
    """`checkpoints: none`: the program saves no checkpoints."""


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
        "file that contains it, and only for this machine. The files of a URL (`s3://bucket/train`, "
        "`hdfs://namenode:8020/train`, `gs://bucket/train`) are copied to each host that needs them once, before "
        "anything is started. Default: none; one of `path` and `fetch` is required.",
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

    @property
    def directory(self) -> str | None:
        """The directory that the hosts have already; None if they fetch the data."""
        return None if self.remote else self.path

    @property
    def remote(self) -> str | None:
        """The URL of the remote directory whose files hosts copy; None without one."""
        return self.path if self.path is not None and scheme_of(self.path) else None


def _checkpoints(value: Any) -> Any:
    """Return NoCheckpoints for the word `none`, anything else unchanged."""
    return NoCheckpoints() if validators.is_none_word(value) else value


CheckpointSetting = Annotated[
    Checkpoints, BeforeValidator(_checkpoints, json_schema_input_type=Literal["none"] | Checkpoints)
]
