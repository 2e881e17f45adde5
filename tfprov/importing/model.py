"""What a foreign file says of a cluster, with the place where it says each thing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfprov.errors import Position, Problem, shown


@dataclass(frozen=True)
class Said:
    """A text and where it stands."""

    text: str
    at: Position


@dataclass(frozen=True)
class Given:
    """The value of a setting, as an inventory has it, and where it was given."""

    value: object
    at: Position


@dataclass(frozen=True)
class Volume:
    """A place in a container: `source` is the directory of the machine that is there, None for storage of the engine's."""

    target: Said
    source: str | None = None
    read_only: bool = False


@dataclass(frozen=True)
class Found:
    """What may be a task, or `count` of them, as one service or one object says it.

    `job` is its job where something besides its command line says so; `settings` are by the name they have in an
    inventory, `host` is the machine it is kept on, and `group` what all of them together are called.
    """

    name: str
    at: Position
    group: str = ""
    job: str | None = None
    index: int | None = None
    count: int = 1
    image: Given | None = None
    words: tuple[Said, ...] = ()
    env: Mapping[str, Said] = field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    settings: Mapping[str, Given] = field(default_factory=dict)
    host: Said | None = None


@dataclass(frozen=True)
class Note:
    """Something that is not carried over: where it stands, and why, or what to do."""

    at: Position
    what: str

    def __str__(self) -> str:
        return f"{self.at}: {self.what}"


class Notes:
    """What is not carried over, each thing once, in the order of the file."""

    def __init__(self) -> None:
        self._found: dict[Note, None] = {}
        self.problems: list[Problem] = []

    def add(self, at: Position, what: str) -> None:
        """Note something."""
        self._found[Note(at, what)] = None

    def left(self, key: str, at: Position, why: str = "an inventory has no word for it") -> None:
        """Note that what is called `key` is not carried over."""
        self.add(at, f"`{shown(key)}` is not carried over: {why}")

    def refuse(self, at: Position, what: str, fix: str) -> None:
        """Note what keeps the file from being imported at all."""
        self.problems.append(Problem(at, what, fix))

    def all(self) -> tuple[Note, ...]:
        """Return what was noted."""
        return tuple(sorted(self._found, key=lambda note: note.at))


@dataclass(frozen=True)
class Machine:
    """A machine as SSH names it, for the tasks to run on."""

    name: str
    user: str | None = None
    port: int | None = None
