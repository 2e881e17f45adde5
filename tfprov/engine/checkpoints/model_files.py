"""`gather --path`: copies a file or directory of the chief as it is; and finds models that were not gathered.

The copy is put beside the gathered checkpoints under its own name: written into `.part/`, fsynced, and renamed into place.
"""

import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import replace as with_fields
from functools import partial
from pathlib import Path

from tfprov.atomic_write import sync
from tfprov.engine.checkpoints import manifest as manifests
from tfprov.engine.checkpoints.gather import check_target
from tfprov.engine.checkpoints.manifest import Manifest
from tfprov.engine.checkpoints.staging import Staging
from tfprov.engine.checkpoints.ungathered import TaskOnHost, gathered_of, not_gathered
from tfprov.engine.context import Context
from tfprov.engine.observe import locate
from tfprov.errors import GatherError, Usage
from tfprov.formats.checkpoint import (
    STATE,
    checkpoints,
    final_models,
    is_within,
    last_component,
    model_files,
    model_roots,
)
from tfprov.hosts.base import File, OutsideFile, Tree
from tfprov.model.state import Observation, Observed
from tfprov.planning.plan_text import join_names

_WHOLE = "work"
"""Name of a gathered working directory beside the checkpoints."""
_RESERVED = (STATE, manifests.NAME, manifests.LOGS, ".part")
"""Names in the gather directory that tfprov uses itself."""


@dataclass(frozen=True)
class CopiedPath:
    """The result of `gather --path`: the path of the copy, and the number and bytes of its files."""

    at: Path
    files: int
    size: int


def check_path(path: str) -> None:
    """Raise Usage for an empty path, or one with `..` in it."""
    if ".." in path.split("/"):
        raise Usage(
            f"`--path {path}` has `..` in it", "name what lies in the chief's working directory, or an absolute path"
        )
    if not path.strip() or "\0" in path:
        raise Usage("`--path` names nothing", "for example `--path output/model.keras`")


def copy_path(context: Context, path: str) -> CopiedPath:
    """Copy `path` of the chief, whole. Raises GatherError; what was gathered before stays as it is."""
    check_path(path)
    before = check_target(context)
    runtime, chief = locate(context, context.cluster.chief.name)
    tree = runtime.outside.tree(chief.task, path)
    staging = Staging(context.target / ".part", partial(context.report.transferred, chief.task))
    staging.clean()  # an interrupted gather may have left files of the same name there
    was_there = os.path.lexists(context.target)
    context.report.awaiting(f"bringing {path} from {chief.task}")
    try:
        return _PathCopy(context, tree, staging, chief).run(before)
    except OSError as error:
        raise manifests.disk_error(context.target, error) from None
    finally:
        context.report.awaiting("")
        staging.clean()
        if not was_there:  # an empty one that was may be a link or a mounted disk
            with suppress(OSError):  # it has files
                context.target.rmdir()


@dataclass(frozen=True)
class _PathCopy:
    context: Context
    tree: Tree
    staging: Staging
    chief: Observed

    def run(self, before: Manifest | None) -> CopiedPath:
        own = before is not None and before.run == self.chief.run
        kept = before if before is not None and own else Manifest(self.context.cluster.name, self.chief.run)
        self.check_free(kept, anything=own)
        self.copy()
        if before is not None and not own:
            self.context.report.note(manifests.set_aside(self.context.target, before, self.staging.directory))
        if not own:  # first: a directory left by an interrupted copy is recognized as ours
            kept.write(self.context.target)
        self.place(kept)
        return CopiedPath(self.to, self.staging.copied, self.staging.size)

    @property
    def name(self) -> str:
        """The name of the copy in the gather directory."""
        return _WHOLE if self.tree.path == "." else last_component(self.tree.path)

    @property
    def to(self) -> Path:
        return self.context.target / self.name

    def check_free(self, kept: Manifest, *, anything: bool) -> None:
        """Raise GatherError if the name is reserved, or, with `anything`, if other files have it."""
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
        """Move the copy into place and record it; an earlier copy is removed with the staging directory."""
        new, earlier = self.staging.directory / self.name, self.staging.directory / f"{self.name}.before"
        if self.to.is_dir() or new.is_dir():  # else one replaces the other
            try:
                if self.to.exists():
                    self.to.rename(earlier)
                new.rename(self.to)
            except BaseException:  # also Ctrl-C
                if earlier.exists() and not self.to.exists():
                    earlier.rename(self.to)
                raise
        else:
            new.replace(self.to)
        others = {name: entry for name, entry in kept.files.items() if not is_within(name, self.name)}
        entries, paths = {**others, **self.staging.entries}, {**kept.paths, self.name: self.tree.path}
        with_fields(kept, files=entries, paths=paths).write(self.context.target)
        sync(self.context.target)


_NAMED = 3
"""How many models a line names; it counts the rest."""
_DIRECTORY = "TFPROV_CHECKPOINT_DIR"
_DISCARD = "remove it for good with `tfprov down --discard`"


@dataclass(frozen=True)
class NothingSaved:
    """A `chief` without a gathered checkpoint, or with models beside one. `directory` is its checkpoint directory.

    `unsaved` are models in that directory, `elsewhere` those that lie in its working directory or its container: both are
    lost when it is removed. `staying` are models that its host keeps. `gathered`: whether there is a checkpoint.
    """

    chief: Observed
    directory: str
    unsaved: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    staying: tuple[str, ...] = ()
    gathered: bool = False

    @property
    def place(self) -> TaskOnHost:
        """The chief's task and host."""
        return self.chief.task, self.chief.host

    @property
    def has_trained(self) -> bool:
        """Whether the chief ran and then finished or was stopped; False if it failed or was lost."""
        return self.chief.started_at is not None and (self.chief.finished or self.chief.stopped)

    @property
    def holds_model(self) -> bool:
        """Whether a model would be removed with the chief."""
        return bool(self.unsaved or self.elsewhere)

    def kept(self) -> GatherError:
        """Return the error for a chief that is kept because of its model, with the command that copies the model."""
        where = f"{self.chief.task} on {self.chief.host} is kept"
        if self.unsaved:
            return GatherError(f"{where}: {not_gathered(self.unsaved)}", f"run `tfprov gather`, or {_DISCARD}")
        bring = f"bring {'it' if len(self.elsewhere) == 1 else 'each'} with `{self.remedy}`"
        what = f"{where}: {self._nothing}, and it has written {_named(self.elsewhere)}"
        if self.gathered:
            what = f"{where}: it has written {_named(self.elsewhere)} outside of {_DIRECTORY} ({self.directory})"
        return GatherError(what, f"{bring} and run this again, or {_DISCARD}")

    def ended(self) -> GatherError:
        """Return the error for a training that ended without a checkpoint."""
        written = f"it has written {_named(self.staying)}, which stays on {self.chief.host}"
        else_ = written if self.staying else "nothing that it wrote looks like a model"
        fix = "save there, or set `checkpoints: none` for a program that saves nothing"
        return GatherError(f"{self.chief.task} has ended: {self._nothing}, and {else_}", fix)

    def hint(self) -> str:
        """Return the models outside of the checkpoint directory, with the command that copies them."""
        which = "it" if len(self.elsewhere) == 1 else "the first of them"
        return f"{self.chief.task} has written {_named(self.elsewhere)}: `{self.remedy}` brings {which}"

    @property
    def remedy(self) -> str:
        """The command that copies a model from outside of the checkpoint directory: the first of several."""
        return f"tfprov gather --path {shlex.quote(self.elsewhere[0])}"

    @property
    def _nothing(self) -> str:
        return f"no checkpoint lies in {_DIRECTORY} ({self.directory})"


def nothing_saved(
    context: Context,
    observation: Observation,
    chosen: Callable[[Observed], bool] = lambda _: True,
    *,
    starts: bool = False,
) -> NothingSaved | None:
    """Return the models of a chief without a gathered checkpoint, or the final models that it wrote beside its checkpoints.

    None if there are none of these, if it is not `chosen`, or saves nothing by its settings; also if its checkpoint
    directory has a checkpoint that was not gathered, which is a reason of its own to keep it. It is none for a chief that
    `starts` again: its checkpoint directory stays, and the models beside it are lost.
    """
    chief = context.chief(observation)
    if chief is None or not chosen(chief) or not context.saves:
        return None
    runtime, kept = context.runtimes[chief.host], gathered_of(context, chief.run)
    if kept is not None and _is_gathered(kept):
        return _beside_checkpoints(context, chief, kept)
    listing = runtime.files(chief.task)  # takes as long as reading the whole container if it is stopped
    names = _names(listing)
    if STATE in names or any(checkpoints(names)):
        return _beside_checkpoints(context, chief, kept) if starts else None
    here = [name for name in model_files(listing) if kept is None or kept.has_changed(name, listing[name])]
    written = runtime.outside.written(chief.task, model_files)
    lost = _lost(written, kept)
    if kept is not None and kept.paths and not here and not lost:
        return None  # everything was copied
    return NothingSaved(
        chief,
        runtime.checkpoint_dir(chief.task),
        tuple(model_roots(here)),
        tuple(model_roots(lost)),
        tuple(model_roots(path for path, file in written.items() if file.lasting and not _is_ours(context, path))),
    )


def _beside_checkpoints(context: Context, chief: Observed, kept: Manifest | None) -> NothingSaved | None:
    """Return the final models that a chief wrote beside its checkpoints and that were not copied; None without any."""
    runtime = context.runtimes[chief.host]
    lost = _lost(runtime.outside.written(chief.task, model_files), kept)
    beside = tuple(model_roots(final_models(lost)))
    return NothingSaved(chief, runtime.checkpoint_dir(chief.task), elsewhere=beside, gathered=True) if beside else None


def _lost(written: Mapping[str, OutsideFile], kept: Manifest | None) -> dict[str, OutsideFile]:
    """Return the models that are lost when their task is removed."""
    return {path: file for path, file in written.items() if not file.lasting and not _is_copied(kept, path, file)}


def _names(listing: Mapping[str, File]) -> list[str]:
    return [name for name in listing if "/" not in name]


def _is_gathered(kept: Manifest) -> bool:
    """Whether a checkpoint, or another model, was gathered from the checkpoint directory."""
    brought = tuple(kept.paths)
    names = [name for name in kept.files if not any(is_within(name, one) for one in brought)]
    return bool(kept.checkpoints or model_files(names))


def _is_copied(kept: Manifest | None, path: str, file: File) -> bool:
    """Whether a file outside of the checkpoint directory was copied in its present state."""
    for name, source in (kept.paths if kept else {}).items():
        if is_within(path, source):
            below = path if source == "." else path.removeprefix(source).lstrip("/")
            if kept is not None and not kept.has_changed(f"{name}/{below}" if below else name, file):
                return True
    return False


def _is_ours(context: Context, path: str) -> bool:
    """Whether a file lies in the gather directory, which a search of a home directory includes."""
    return is_within(path, str(context.target.parent.resolve())) or is_within(path, str(context.target.parent))


def _named(paths: tuple[str, ...]) -> str:
    return join_names(paths, _NAMED)
