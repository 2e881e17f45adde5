"""Plays and steps: what a playbook says."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from tfprov.errors import Position
from tfprov.model.settings import Line, Strict


class Nothing(Strict):
    """`build`, `deliver` and `start` take no arguments: the inventory says what they need."""


class WaitFor(Strict):
    """`serving`: every task answers on its port. `done`: the chief has ended, with logs and progress until then."""

    condition: Literal["serving", "done"] = Field(default="serving", alias="for", description="What to wait for.")
    timeout: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Seconds; default: `start_timeout` for `serving`, no limit for `done`."
    )


class Stop(Strict):
    """Stop tasks in draining order: the chief, then workers, then ps."""

    tasks: Line = Field("all", description="`all`, `chief`, a job such as `ps`, or a task such as `worker/1`.")
    remove: bool = Field(
        default=False, description="Also remove them, unless the chief holds a checkpoint that was not gathered."
    )


class Command(Strict):
    """Run a command on every host of the play; a failure fails the step."""

    argv: Annotated[list[Line], Field(min_length=1)] = Field(description="The program and its arguments; no shell.")


Arguments = Nothing | WaitFor | Stop | Command

MODULES: dict[str, type[Strict]] = {
    "build": Nothing,
    "deliver": Nothing,
    "start": Nothing,
    "wait": WaitFor,
    "gather": Nothing,
    "stop": Stop,
    "command": Command,
}


@dataclass(frozen=True)
class Step:
    """An entry of a play's `tasks:`; `when` names roles that must be present."""

    module: str
    arguments: Arguments
    at: Position
    name: str = ""
    when: tuple[str, ...] = ()
    tags: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Play:
    """Steps for the hosts that the pattern `hosts` selects. With `always`, it runs even after a failure, step by step."""

    name: str
    hosts: str
    steps: tuple[Step, ...]
    at: Position
    when: tuple[str, ...] = ()
    tags: frozenset[str] = field(default_factory=frozenset)
    always: bool = False
