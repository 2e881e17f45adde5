"""What a host in memory has of one task."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from posixpath import normpath

from tfprov.errors import HostError
from tfprov.hosts.base import File, Tree, Written
from tfprov.hosts.crash import Life
from tfprov.model.model_files import lies_in, model_files
from tfprov.model.state import Container, Observed


@dataclass
class Place:
    """All there is of one task: its container, and what outlives a restart of it."""

    observed: Observed
    container: Container | None = None
    files: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    written: dict[str, tuple[bytes, float]] = field(default_factory=dict)
    """The files outside of the checkpoint directory; those with an absolute path stay when the task is removed."""
    begin: int = 0
    """How many lines of the log are of earlier runs of the task."""
    before: Life | None = None
    """The run before the present one, where that failed."""

    def models(self) -> Mapping[str, Written]:
        """See Outside."""
        return {
            name: Written(len(self.written[name][0]), self.written[name][1], lasting=name.startswith("/"))
            for name in model_files(self.written)
        }

    def tree(self, path: str) -> Tree:
        """See Outside."""
        top = normpath(path)
        below = sorted(name for name in self.written if lies_in(name, top))
        if not below:
            raise HostError(self.observed.host, f"no such file or directory: {path}")
        files = ((name, *self.written[name]) for name in below)
        cut = 0 if top == "." else len(top) + 1
        return Tree(top, ((name[cut:], File(len(data), at), io.BytesIO(data)) for name, data, at in files))
