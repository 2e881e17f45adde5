"""Checkpoints of a program that removes them faster than they are copied: its host holds them until they are."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from tfprov.checkpoint import checkpoints
from tfprov.engine.checkpoints.shards import Place, Survey, Whole, survey
from tfprov.engine.context import Context
from tfprov.hosts.held import FOLDER
from tfprov.model.state import Observation, Observed, State


@dataclass(frozen=True, eq=False)
class Held(Place):
    """What is held of a checkpoint directory, so that its task cannot remove it."""

    def open(self, name: str) -> BinaryIO:
        """See Place."""
        return super().open(f"{FOLDER}/{name}")

    def open_each(self, names: Collection[str]) -> Iterator[tuple[str, BinaryIO]]:
        """See Place."""
        files = {f"{FOLDER}/{name}": file for name, file in self.files.items()}
        for name, stream in self.runtime.open_each(self.task, [f"{FOLDER}/{name}" for name in names], files):
            yield name.removeprefix(f"{FOLDER}/"), stream


def survey_held(context: Context, chief: Observed, look: Callable[[], Observation]) -> Survey:
    """Look at the chief's directory as `survey` does, and have its host hold the checkpoints there, where it can."""
    found = survey(context, chief, look)
    if chief.state is not State.RUNNING:  # nobody removes anything any more
        return found
    runtime = context.runtimes[chief.host]
    place = Held(runtime, chief, runtime.hold(chief.task))
    whole = tuple(Whole(one, place, place) for one in checkpoints(place.files) if one.whole)
    return replace(found, whole=whole) if whole else found
