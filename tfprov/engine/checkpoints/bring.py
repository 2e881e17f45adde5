"""Bring a file or directory of the chief as it is: a model that does not lie in its checkpoint directory.

It goes beside the gathered checkpoints, under its own name: copied into `.part/` first, fsynced, and renamed into place.
"""

from dataclasses import dataclass
from dataclasses import replace as with_fields
from functools import partial
from pathlib import Path

from tfprov.checkpoint import STATE, relative
from tfprov.engine.checkpoints import manifest as manifests
from tfprov.engine.checkpoints.gather import check_target
from tfprov.engine.checkpoints.manifest import Manifest
from tfprov.engine.checkpoints.staging import Staging, set_aside
from tfprov.engine.context import Context
from tfprov.engine.observe import locate
from tfprov.errors import GatherError, Usage
from tfprov.files import sync
from tfprov.hosts.base import Tree
from tfprov.model.model_files import lies_in
from tfprov.model.state import Observed

_WHOLE = "work"
"""What a whole working directory is called beside the checkpoints."""
_RESERVED = (STATE, manifests.NAME, manifests.LOGS, ".part")
"""Names beside the gathered checkpoints that mean something."""


@dataclass(frozen=True)
class Brought:
    """What was brought: where it lies now, and the number and bytes of its files."""

    at: Path
    files: int
    size: int


def check_path(path: str) -> None:
    """Usage for a path that leads out of where it begins, or nowhere."""
    if ".." in path.split("/"):
        raise Usage(
            f"`--path {path}` has `..` in it", "name what lies in the chief's working directory, or an absolute path"
        )
    if not path.strip() or "\0" in path:
        raise Usage("`--path` names nothing", "for example `--path output/model.keras`")


def bring(context: Context, path: str) -> Brought:
    """Bring `path` of the chief, whole; GatherError when it cannot be, with what was gathered before untouched."""
    check_path(path)
    before = check_target(context)
    runtime, chief = locate(context, context.cluster.chief.name)
    tree = runtime.outside.tree(chief.task, path)
    staging = Staging(context.target / ".part", partial(context.report.transferred, chief.task))
    context.report.awaiting(f"bringing {path} from {chief.task}")
    try:
        return _Bringing(context, tree, staging, chief).run(before)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise GatherError(
            f"{context.target}: {error.strerror}{where}", "what was gathered before is untouched"
        ) from None
    finally:
        context.report.awaiting("")
        staging.clean()
        if context.target.is_dir() and not any(context.target.iterdir()):
            context.target.rmdir()


@dataclass(frozen=True)
class _Bringing:
    context: Context
    tree: Tree
    staging: Staging
    chief: Observed

    def run(self, before: Manifest | None) -> Brought:
        own = before is not None and before.run == self.chief.run
        kept = before if before is not None and own else Manifest(self.context.cluster.name, self.chief.run)
        self.check_free(kept, anything=own)
        self.copy()
        if before is not None and not own:
            set_aside(self.context, before, self.staging.directory)
        if not own:  # first: a directory that is cut off from here on is known as ours
            self.context.target.mkdir(parents=True, exist_ok=True)
            kept.write(self.context.target)
        self.place(kept)
        return Brought(self.to, self.staging.copied, self.staging.size)

    @property
    def name(self) -> str:
        """What it is called beside the checkpoints."""
        return _WHOLE if self.tree.path == "." else relative(self.tree.path)

    @property
    def to(self) -> Path:
        return self.context.target / self.name

    def check_free(self, kept: Manifest, *, anything: bool) -> None:
        """GatherError where it cannot go; with `anything` also where something else lies, which is not set aside."""
        if self.name in _RESERVED:
            raise GatherError(f"{self.to} is a name that `gather` needs", f"bring the directory with {self.tree.path}")
        if anything and self.to.exists() and kept.paths.get(self.name) != self.tree.path:
            raise GatherError(f"{self.to} is there, and was not brought from {self.tree.path}", "move it away")

    def copy(self) -> None:
        top = self.name
        named = ((f"{top}/{below}" if below else top, file, content) for below, file, content in self.tree.files)
        self.staging.take(named, self.chief.host)
        if not self.staging.entries:
            what = f"{self.tree.path} of {self.chief.task} holds no regular file"
            raise GatherError(what, "links are not brought: name what they lead to")

    def place(self, kept: Manifest) -> None:
        """Rename it into place, and note it; what was brought of it before goes with the staging directory."""
        if self.to.exists():
            self.to.rename(self.staging.directory / ".before")
        (self.staging.directory / self.name).rename(self.to)
        others = {name: entry for name, entry in kept.files.items() if not lies_in(name, self.name)}
        entries, paths = {**others, **self.staging.entries}, {**kept.paths, self.name: self.tree.path}
        with_fields(kept, files=entries, paths=paths).write(self.context.target)
        sync(self.context.target)
