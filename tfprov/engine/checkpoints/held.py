"""Checkpoints that a host holds while they are copied, as their task would remove them meanwhile."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from tfprov.engine.checkpoints.shards import CheckpointDir, Survey, WholeCheckpoint, survey
from tfprov.engine.context import Context
from tfprov.formats.checkpoint import checkpoints
from tfprov.hosts.base import Prefix
from tfprov.hosts.held_checkpoints import FOLDER
from tfprov.model.state import Observation, Observed, State


@dataclass(frozen=True, eq=False)
class HeldCheckpointDir(CheckpointDir):
    """The held files of a checkpoint directory, which its task cannot remove."""

    def open(self, name: str) -> BinaryIO:
        """See CheckpointDir."""
        return super().open(f"{FOLDER}/{name}")

    def open_rest(self, name: str, before: Prefix) -> BinaryIO | None:
        """See CheckpointDir."""
        return super().open_rest(f"{FOLDER}/{name}", before)

    def open_each(self, names: Collection[str]) -> Iterator[tuple[str, BinaryIO]]:
        """See CheckpointDir."""
        files = {f"{FOLDER}/{name}": file for name, file in self.files.items()}
        for name, stream in self.runtime.open_each(self.task, [f"{FOLDER}/{name}" for name in names], files):
            yield name.removeprefix(f"{FOLDER}/"), stream


def survey_held(context: Context, chief: Observed, look: Callable[[], Observation]) -> Survey:
    """List the chief's directory as `survey` does, and have its host hold the checkpoints in it, if possible."""
    surveyed = survey(context, chief, look)
    if chief.state is not State.RUNNING:  # it removes no checkpoints
        return surveyed
    runtime = context.runtimes[chief.host]
    place = HeldCheckpointDir(runtime, chief, runtime.hold(chief.task))
    whole = tuple(WholeCheckpoint(one, place, place) for one in checkpoints(place.files) if one.whole)
    return replace(surveyed, whole=whole) if whole else surveyed
