"""Plays and steps of a playbook, with the documentation of every key."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from tfprov.errors import Position
from tfprov.model import field_types
from tfprov.model.inventory import ROLES
from tfprov.model.sections import Line, StrictModel

_TASKS = field_types.pattern_format(
    rf"all|(?:{'|'.join(ROLES)})(?:/[0-9]{{1,9}})?",
    "`all`, a job or a task",
    "for example `tasks: chief` or `tasks: worker/1`",
)


class NoArguments(StrictModel):
    """No arguments: `build`, `deliver` and `start` take all they need from the inventory."""


class WaitFor(StrictModel):
    """Arguments of `wait`: until every task answers on its port (`serving`), or until the chief ends (`done`)."""

    condition: Literal["serving", "done"] = Field(
        default="serving",
        alias="for",
        description="What to wait for: `serving`, until every task answers on its port; `done`, until the chief ends.",
        examples=["done"],
    )
    timeout: Annotated[float, Field(gt=0)] | None = Field(
        None,
        description="How many seconds to wait. Default: `start_timeout` for `serving`, no limit for `done`.",
        examples=[3600],
    )


class Stop(StrictModel):
    """Arguments of `stop`, which stops the chief, then workers, then ps."""

    tasks: Annotated[Line, _TASKS] = Field(
        "all",
        description="What to stop: `all`, `chief`, a job such as `ps`, or a task such as `worker/1`.",
        examples=["worker/1"],
    )
    remove: bool = Field(
        default=False,
        description="Also remove them, unless the chief holds a checkpoint that was not gathered.",
        examples=[True],
    )


class Command(StrictModel):
    """Arguments of `command`, which runs on every host of the play; a failure fails the step."""

    argv: Annotated[list[Line], Field(min_length=1)] = Field(
        description="The program and its arguments; no shell.", examples=[["nvidia-smi", "-L"]]
    )


Arguments = NoArguments | WaitFor | Stop | Command

MODULES: dict[str, type[StrictModel]] = {
    "build": NoArguments,
    "deliver": NoArguments,
    "start": NoArguments,
    "wait": WaitFor,
    "gather": NoArguments,
    "stop": Stop,
    "command": Command,
}


@dataclass(frozen=True)
class KeyDoc:
    """The documentation of a key of a play or a step, with an example of its value."""

    sentence: str
    example: Any


@dataclass(frozen=True)
class BatchSize:
    """An entry of a play's `serial:`: a number of hosts, or with `percent` a share of the play's hosts; above 0."""

    number: int
    percent: bool = False


IMPORT = "import_playbook"
PLAY_KEYS = {
    "name": KeyDoc("What the play is for, for people.", "train"),
    "hosts": KeyDoc("A host pattern; the steps touch these hosts only.", "all"),
    "tasks": KeyDoc("The steps, in order.", [{"start": None}]),
    "when": KeyDoc("Roles that the inventory must have, or the play is left out.", ["evaluator"]),
    "tags": KeyDoc("Names by which `tfprov play -t` picks the play.", ["train"]),
    "serial": KeyDoc(
        "How many hosts play all steps before the next ones begin: a number, a share such as `30%`, or a list of them, "
        "whose last one repeats.",
        [1, "30%"],
    ),
    "max_fail_percentage": KeyDoc(
        "Continue without hosts that fail, until more than this share of a batch has failed. Default: stop at a failure.",
        25,
    ),
    "always": KeyDoc("Play it also after a failure or Ctrl-C, and try each of its steps. Default: false.", True),
}
IMPORT_KEYS = {
    IMPORT: KeyDoc("Another playbook, whose plays stand here; a path from this file.", "up.yml"),
    "name": PLAY_KEYS["name"],
}
STEP_KEYS = {
    "name": KeyDoc("What the step is for, for people.", "logs and progress until the chief is done"),
    "when": KeyDoc("Roles that the inventory must have, or the step is left out.", ["ps"]),
    "tags": KeyDoc("Names by which `tfprov play -t` picks the step.", ["slow"]),
}
MODULE_KEYS = {
    "build": KeyDoc("Build the image and put the code on top; without an image, pack the code.", None),
    "deliver": KeyDoc("Bring images, or packed code, to the hosts that lack them, which then fetch their data.", None),
    "start": KeyDoc("Start what is missing, restart what has changed, stop what left the inventory.", None),
    "wait": KeyDoc(
        "Wait until every task answers on its port, or until the chief has ended.", {"for": "done", "timeout": 3600}
    ),
    "gather": KeyDoc("Bring back the checkpoints and event files that the chief has saved since.", None),
    "stop": KeyDoc("Stop tasks: the chief first, then workers, then ps.", {"tasks": "worker/1", "remove": True}),
    "command": KeyDoc("Run a program on every host of the play, without a shell.", "nvidia-smi -L"),
}
"""The documentation of every module in MODULES, with an example of its arguments."""


@dataclass(frozen=True)
class Step:
    """An entry of a play's `tasks:`. `when` has the roles that the inventory must have."""

    module: str
    arguments: Arguments
    at: Position
    name: str
    when: tuple[str, ...]
    tags: frozenset[str]


@dataclass(frozen=True)
class Play:
    """Steps for the hosts that match the pattern `hosts`. With `always`, it runs also after a failure.

    `serial` has the sizes of its batches, none for one batch of all hosts. `max_fail_percentage` is the share of a batch
    that may fail, 0 to 100; None if a failure stops the play.
    """

    name: str
    hosts: str
    steps: tuple[Step, ...]
    at: Position
    when: tuple[str, ...]
    tags: frozenset[str]
    always: bool
    serial: tuple[BatchSize, ...]
    max_fail_percentage: float | None
