"""How far the chief has got, from the event files it writes."""

from tfprov.engine.context import Context
from tfprov.errors import HostError
from tfprov.events import Progress, progress
from tfprov.model.state import Observation


def read_progress(context: Context, seen: Observation) -> Progress | None:
    """Return the chief's progress, or None while it has written none."""
    found = context.chief(seen)
    if found is None:
        return None
    runtime = context.runtimes[found.host]
    try:
        events = [(file.modified, name) for name, file in runtime.files(found.task).items() if ".tfevents." in name]
        for _, name in sorted(events, reverse=True):
            with runtime.open(found.task, name) as stream:
                if (read := progress(stream)) is not None:
                    return read
    except HostError:  # a file that is removed between the listing and the reading
        return None
    return None
