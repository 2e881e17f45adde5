"""The mirror of a checkpoint directory: each new whole checkpoint goes to the remote directory, and old ones go there too.

A reader of the remote directory sees a whole checkpoint at any moment: the files of a new one are complete before a
manifest and the `checkpoint` file name it, and those of old ones are removed after that.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tfprov.filesystems.generations import FOLDER, Manifest, RemoteCheckpoint, RemoteFile, generations, rank
from tfprov.filesystems.remote_dir import RemoteDir, RemoteError, describe_error
from tfprov.formats.checkpoint import NO_STEP, STATE, checkpoint_state, series_of
from tfprov.runtime.mirror.scan import Listing, LocalCheckpoint, Stamp, scan
from tfprov.runtime.mirror.upload import Changed, held, in_order, object_name, upload

KEPT_OF_OTHERS = 5
"""Checkpoints of a series that stay of those that tasks on other hosts saved: as many as TensorFlow's saver keeps."""
_SAME_TIME = 1e-3
"""Seconds within which two times of a file are the same: they are kept as floating-point numbers."""
OTHERS_INTERVAL = 60.0
"""Seconds between two uploads of files that grow, such as event files; each is sent as a whole."""
_SHOWN = 200
"""Characters of a name in a line of the log."""


class Superseded(RemoteError):
    """Another task has taken over the directory: this one must not write to it any more."""


@dataclass
class Mirror:
    """The mirror of `directory` at `remote`, which `manifest` describes; this task is its writer.

    `noted` is called with a line for the log. `clock` is in seconds.
    """

    directory: Path
    remote: RemoteDir
    manifest: Manifest
    noted: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    _sent: dict[str, Mapping[str, Stamp]] = field(default_factory=dict)
    """The files of the checkpoints that this task has mirrored, or that already were mirrored, as they were then."""
    _unused: frozenset[str] = frozenset()
    """Objects to remove once a manifest without them is written: of old checkpoints, and of those that an error cut."""
    _others: dict[str, Stamp] = field(default_factory=dict)
    _others_at: float = float("-inf")
    _refused: dict[str, Stamp] = field(default_factory=dict)
    """Files beside the checkpoints that could not be uploaded, as they were then, while others could."""

    def adopt(self, listing: Listing) -> None:
        """Take local files that the remote directory has, with the same sizes and times, as mirrored already."""
        mirrored = {one.prefix: one for one in self.manifest.checkpoints}
        for one in listing.checkpoints:
            known = mirrored.get(one.prefix)
            if known is not None and all(_is_same(known.files.get(name), stamp) for name, stamp in one.files.items()):
                self._sent[one.prefix] = one.files
        others = self.manifest.others
        self._others.update(
            {name: stamp for name, stamp in listing.others.items() if _is_same(others.get(name), stamp)}
        )

    def sync(self, *, final: bool = False) -> bool:
        """Upload the newest checkpoint that is new; return whether there was one. `final` uploads all that is new.

        Raises RemoteError, and Superseded for good; after an error the next call goes on where this one ended.
        """
        changed, listing = False, scan(self.directory)
        while (final or not changed) and (new := self._next(listing)) is not None:
            with suppress(Changed):
                self._send(new, listing)
                changed = True
            listing = scan(self.directory)
        is_due = final or self.clock() - self._others_at >= OTHERS_INTERVAL
        if is_due and self._send_others(listing, final=final):
            changed = True
        return changed

    def behind(self) -> int:
        """Return how many whole checkpoints of the directory are not mirrored."""
        return sum(self._is_new(one) for one in scan(self.directory).checkpoints)

    def _is_new(self, one: LocalCheckpoint) -> bool:
        return self._sent.get(one.prefix) != one.files

    def _next(self, listing: Listing) -> LocalCheckpoint | None:
        """Return the newest checkpoint that is not mirrored: with a slow connection, older ones are passed over."""
        return next((one for one in reversed(listing.checkpoints) if self._is_new(one)), None)

    def _send(self, one: LocalCheckpoint, listing: Listing) -> None:
        with held(self.directory, one) as paths:
            taken = self.manifest.files
            plan = {name: object_name(name, paths[name], taken) for name in in_order(iter(paths))}
            self._announce(target for target, is_there in plan.values() if not is_there)
            files: dict[str, RemoteFile] = {}
            for name, (target, is_there) in plan.items():
                if is_there:
                    files[name] = next(file for file in taken.values() if file.object == target)
                else:
                    files[name] = upload(self.remote, target, paths[name], one.files[name])
        self._adopt_checkpoint(one, RemoteCheckpoint(one.prefix, files), listing)

    def _announce(self, objects: Iterable[str]) -> None:
        """Write down which objects come next, so that what is left of a cut upload can be removed."""
        uploading = tuple(objects)
        # An error was in the way of what was announced before, and the program may have removed it since.
        self._unused |= frozenset(self.manifest.uploading)
        if uploading:
            self._commit(replace(self.manifest, uploading=uploading))

    def _adopt_checkpoint(self, one: LocalCheckpoint, new: RemoteCheckpoint, listing: Listing) -> None:
        kept = [*self._kept(listing, new), new]
        after = replace(self.manifest, checkpoints=tuple(kept), uploading=())
        self._unused = (self._unused | self.manifest.objects) - after.objects
        # TensorFlow, which reads the directory through a mount or `gs://`, finds a new one by this file.
        folder = after.in_folder(new.folder)
        newest = max(new, folder[-1], key=lambda it: rank(it.prefix))  # an older one may fill a gap
        state = checkpoint_state(newest.prefix, [it.prefix for it in folder])
        start = f"{new.folder}/" if new.folder else ""
        self._check_writer()
        self.remote.write(f"{start}{STATE}", [state.encode()])
        self._commit(after)
        left = {it.prefix for it in kept}
        self._sent = {prefix: files for prefix, files in self._sent.items() if prefix in left}
        self._sent[one.prefix] = one.files
        self.noted(f"{one.prefix} is in {self.remote.url}")
        self.remote.remove(sorted(self._unused))
        self._unused = frozenset()

    def _kept(self, listing: Listing, new: RemoteCheckpoint) -> list[RemoteCheckpoint]:
        """Return which mirrored checkpoints stay beside a new one.

        Those that the program removed here go; of those from other hosts, which are not here, the newest of each series
        stay. Nothing goes that is newer than the new one: that was uploaded later, and the new one fills a gap.
        """
        folder = [it for it in self.manifest.in_folder(new.folder) if it.prefix != new.prefix]
        elsewhere: dict[str, list[str]] = defaultdict(list)
        for it in folder:
            if it.prefix not in self._sent:
                elsewhere[_series(it)].append(it.prefix)
        recent = {prefix for prefixes in elsewhere.values() for prefix in prefixes[-KEPT_OF_OTHERS:]}
        here = listing.prefixes

        def stays(it: RemoteCheckpoint) -> bool:
            is_newer = _series(it) == _series(new) and it.step > new.step
            if it.folder != new.folder or it.prefix in here or is_newer:
                return it.prefix != new.prefix
            return it.prefix in recent

        return [it for it in self.manifest.checkpoints if it.prefix != new.prefix and stays(it)]

    def _send_others(self, listing: Listing, *, final: bool) -> bool:
        """Upload new and changed files beside the checkpoints; those that the program removed stay.

        A file that cannot be uploaded is left out until it changes, or until the end. Raises RemoteError if it is the
        remote directory that does not answer.
        """
        self._others_at = self.clock()
        left = {
            name: stamp
            for name, stamp in listing.others.items()
            if self._others.get(name) != stamp and (final or self._refused.get(name) != stamp)
        }
        changed, failed = self._send_each(left)
        if failed:  # by a fault that has passed, perhaps
            again, failed = self._send_each({name: left[name] for name in failed})
            changed = changed or again
        for name, error in failed.items():
            self._leave_out(name, left[name], describe_error(error.__cause__ or error), error.fix or "rename it")
        return changed

    def _send_each(self, files: Mapping[str, Stamp]) -> tuple[bool, Mapping[str, RemoteError]]:
        """Upload files; return whether any was, and the errors of those that the remote directory refuses.

        Raises RemoteError if it does not answer: it then takes no manifest either.
        """
        changed = False
        sent: dict[str, RemoteFile] = {}
        failed: dict[str, RemoteError] = {}
        for name, stamp in sorted(files.items()):
            try:
                sent[name] = upload(self.remote, name, self.directory / name, stamp)
            except Changed:
                continue
            except PermissionError as error:  # of the local file
                self._leave_out(name, stamp, error.strerror or "it cannot be read", "let this task read it")
            except RemoteError as error:
                failed[name] = error
                changed = changed or bool(sent)
                self._commit_others(sent, files, error)
                sent = {}
        if sent:
            self._commit_others(sent, files)
        return changed or bool(sent), failed

    def _commit_others(
        self, sent: Mapping[str, RemoteFile], stamps: Mapping[str, Stamp], before: RemoteError | None = None
    ) -> None:
        """Write the manifest with new files beside the checkpoints. If that fails, raises the error `before`, if any."""
        try:
            self._commit(replace(self.manifest, others={**self.manifest.others, **sent}))
        except Superseded:
            raise
        except RemoteError:
            if before is None:
                raise
            raise before from before.__cause__
        for name in sent:  # no sooner: no manifest has them after an error
            self._others[name] = stamps[name]
            self._refused.pop(name, None)

    def _leave_out(self, name: str, stamp: Stamp, reason: str, fix: str) -> None:
        if name not in self._refused:
            self.noted(f"{name[:_SHOWN]!r} is left out of {self.remote.url}: {reason}; {fix}")
        self._refused[name] = stamp

    def _check_writer(self) -> list[str]:
        """Return the manifests up to this task's newest one. Raises Superseded if another task has written one since.

        One of this task's own that is newer is what a write left whose answer was lost: the next one replaces it.
        """
        newest = self.manifest.number, self.manifest.writer
        there = generations(self.remote.files(FOLDER))
        for one in there:
            if one.writer != self.manifest.writer and (one.number, one.writer) > newest:
                what = f"{self.remote.url} was taken over by another task, which restored from it"
                raise Superseded(f"{what}: this one's checkpoints stay here", "end one of the two with `tfprov down`")
        return [one.name for one in there if (one.number, one.writer) <= newest]

    def _commit(self, after: Manifest) -> None:
        """Write the next generation, then remove the earlier ones."""
        earlier = self._check_writer()
        after = replace(after, number=self.manifest.number + 1)
        self.remote.write(after.name, [after.encode()])
        self.manifest = after
        # One stays, for a reader that has listed the manifests and has not read one yet.
        with suppress(RemoteError):  # the next generation removes what is left
            self.remote.remove(sorted(earlier)[:-1])


def _series(one: RemoteCheckpoint) -> str:
    """Return the series of a checkpoint; those without a step are one, whatever their names."""
    return series_of(one.prefix) if one.step != NO_STEP else ""


def _is_same(known: RemoteFile | None, stamp: Stamp) -> bool:
    return known is not None and known.size == stamp.size and abs(known.modified - stamp.modified / 1e9) < _SAME_TIME
