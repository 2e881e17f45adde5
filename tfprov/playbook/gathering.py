"""The ways to gather: from the chief, from a remote directory, one file or directory as it is, and as a playbook's step."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from tfprov.engine.context import Context
from tfprov.engine.observe import locate, observe
from tfprov.errors import HostError
from tfprov.model.state import Observation, Observed, State
from tfprov.planning.plan_text import format_count, format_size

if TYPE_CHECKING:
    from tfprov.engine.checkpoints.gather import Gathered
    from tfprov.engine.checkpoints.model_files import CopiedPath
    from tfprov.engine.checkpoints.ungathered import TaskOnHost
    from tfprov.hosts.base import File, Runtime


def gather_newest(context: Context) -> "Gathered":
    """Gather what is new at the chief, under the cluster's lock, and report it; what `tfprov gather` does."""
    from tfprov.engine.checkpoints.gather import gather  # noqa: PLC0415
    from tfprov.engine.checkpoints.model_files import nothing_saved  # noqa: PLC0415
    from tfprov.engine.lock.cluster_lock import ClusterLock  # noqa: PLC0415
    from tfprov.history.session import recording  # noqa: PLC0415

    run = locate(context, context.cluster.chief.name)[1].run
    with recording(context, "gather", run) as session, ClusterLock(context := session.context, "gather", tolerant=True):
        observation = observe(context, tolerant=True)
        gathered = gather(context, context.verify, observation)
        report_gathered(context, gathered)
        if (chief := context.chief(observation)) is not None:
            report_lost_steps(context, chief, observation, gathered.listed)
        if gathered.newest is None:
            context.report.note(f"{context.cluster.chief.name} has not saved a checkpoint yet")
            if (nothing := nothing_saved(context, observation)) is not None and nothing.elsewhere:
                context.report.note(nothing.hint())
    return gathered


def gather_mirrored(context: Context) -> "Gathered | None":
    """Gather from the remote directory, without contacting a host; None without one, or if it cannot be read from here."""
    from tfprov.engine.checkpoints.remote import read_remote, remote_url  # noqa: PLC0415

    if (url := remote_url(context)) is None:
        return None
    from tfprov.engine.checkpoints.gather import gather  # noqa: PLC0415
    from tfprov.engine.checkpoints.remote import RemoteFiles, as_host  # noqa: PLC0415
    from tfprov.engine.lock.cluster_lock import ClusterLock  # noqa: PLC0415

    chief = context.cluster.chief.name
    try:
        training = read_remote(context)
    except HostError as error:
        context.report.note(f"{error}; gathering from {chief} instead")
        return None
    if training is None or training.newest is None:
        context.report.note(f"{url} has no checkpoint yet; gathering from {chief} instead")
        return None
    from_there = replace(context, runtimes={url: cast("Runtime", RemoteFiles(training))}, machines={})
    with ClusterLock(from_there, "gather"):
        gathered = gather(from_there, context.verify, source=as_host(context, training))
        report_gathered(context, gathered)
    return gathered


def gather_path(context: Context, path: str) -> "CopiedPath":
    """Copy a file or directory of the chief, under the cluster's lock, and report it."""
    from tfprov.engine.checkpoints.model_files import copy_path  # noqa: PLC0415
    from tfprov.engine.lock.cluster_lock import ClusterLock  # noqa: PLC0415

    locate(context, context.cluster.chief.name)
    with ClusterLock(context, "gather", tolerant=True):
        copied = copy_path(context, path)
        what = f"{format_count(copied.files, 'file')}, {format_size(copied.size)}"
        context.report.note(f"brought to {copied.at}: {what}, as it is: nothing was verified")
    return copied


def gather_step(context: Context, _arguments: Any, discard: bool) -> None:
    """Gather from every task that has new checkpoints, and report what came; what the module `gather` does."""
    from tfprov.engine.checkpoints.gather import gather  # noqa: PLC0415
    from tfprov.engine.checkpoints.ungathered import (  # noqa: PLC0415
        former_chiefs,
        holders,
        with_ungathered_files,
    )

    if discard:
        return
    observation = observe(context)
    former = with_ungathered_files(context, observation, former_chiefs(context, observation))
    others = [one for one in holders(context, observation) if one not in former]  # the chief is the last
    sources = [holder for holder in (*former, *others) if context.allows(holder.host)]
    context.uncopied.update((source.task, source.host) for source in sources)  # each until all of its files were copied
    for source in sources:
        gathered = gather(context, context.verify, source=source)
        report_gathered(context, gathered)
        if gathered.is_whole:
            context.uncopied.discard((source.task, source.host))
        report_lost_steps(context, source, observation)
    chief = context.cluster.chief
    if not sources:
        what = f"{chief.name} is not there"
        if not context.allows(chief.host):
            what = f"{chief.name} is on {chief.host}, which is left out here"
        elif chief.host in observation.unreachable:
            what = f"{chief.host} with {chief.name} cannot be reached"
        context.report.note(f"nothing to gather: {what}")


def report_gathered(context: Context, gathered: "Gathered") -> None:
    """Report the result of a gather."""
    if gathered.files:
        what = f"{format_count(gathered.files, 'file')}, {format_size(gathered.size)}"
        if gathered.new:
            newest = gathered.new[-1]
            unread = "its tensors were not read"
            tensors = f"{format_count(newest.tensors, 'tensor')} read" if newest.tensors is not None else unread
            what = f"{newest.prefix} ({tensors}); {what}"
        if gathered.directory != context.target:
            what = f"{what}; {context.target} has the model of an earlier run, and keeps it"
        context.report.note(f"gathered into {gathered.directory}: {what}")
    elif gathered.newest:
        context.report.note(f"nothing new to gather: {gathered.directory} has {gathered.newest.prefix}")


def report_lost_steps(
    context: Context, source: Observed, observation: Observation, files: "Mapping[str, File] | None" = None
) -> None:
    """Report how many steps of a chief are in no checkpoint, if checkpoint numbers are steps: `model.ckpt-16`.

    `files` are those in its directory, if they were listed just now.
    """
    from tfprov.engine.checkpoints.ungathered import gathered_of  # noqa: PLC0415
    from tfprov.engine.monitoring.chief_progress import BY_STEP, read_progress  # noqa: PLC0415

    kept = gathered_of(context, source.run)
    newest = kept.newest if kept is not None else None
    if (
        newest is None
        or not newest.prefix.rpartition("/")[2].startswith(BY_STEP)
        or source != context.chief(observation)
    ):
        return
    reached = read_progress(context, observation, files)
    lost = reached.step - newest.step if reached is not None else 0
    if reached is None or lost <= 0:
        return
    if source.state is State.RUNNING:
        context.report.note(f"{source.task} is at step {reached.step:,} and has saved nothing since {newest.prefix}")
        return
    did = "did not save when it was stopped" if source.stopped else "did not save at its end"
    what = f"{source.task} was at step {reached.step:,} and {did}"
    context.report.note(f"{what}: {format_count(lost, 'step')} since {newest.prefix} are lost")


def left_by_failed_gather(
    context: Context, observation: Observation, chosen: Callable[[Observed], bool]
) -> "dict[TaskOnHost, list[str]]":
    """Return the `chosen` containers whose last gather failed, with their files beside checkpoints that it did not copy.

    Checkpoints and models are reasons of their own to keep a container; of the others, such as event files, only a gather
    that failed leaves some behind: what a program writes after the last gather was not to be gathered.
    """
    from tfprov.engine.checkpoints.ungathered import ungathered_files  # noqa: PLC0415

    failed = [one for one in observation.containers() if (one.task, one.host) in context.uncopied and chosen(one)]
    left = {(one.task, one.host): ungathered_files(context, one) for one in failed}
    return {place: names for place, names in left.items() if names}
