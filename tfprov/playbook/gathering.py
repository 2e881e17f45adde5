"""The ways to gather: from the chief, from a remote directory, and one file or directory as it is."""

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from tfprov.engine.context import Context
from tfprov.engine.observe import locate, observe
from tfprov.errors import HostError
from tfprov.planning.plan_text import format_count, format_size

if TYPE_CHECKING:
    from tfprov.engine.checkpoints.gather import Gathered
    from tfprov.engine.checkpoints.model_files import CopiedPath
    from tfprov.hosts.base import Runtime


def gather_newest(context: Context) -> "Gathered":
    """Gather what is new at the chief, under the cluster's lock, and report it; what `tfprov gather` does."""
    from tfprov.engine.checkpoints.gather import gather  # noqa: PLC0415
    from tfprov.engine.checkpoints.model_files import nothing_saved  # noqa: PLC0415
    from tfprov.engine.lock.cluster_lock import ClusterLock  # noqa: PLC0415
    from tfprov.history.session import recording  # noqa: PLC0415
    from tfprov.playbook.steps import report_gathered, report_lost_steps  # noqa: PLC0415

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
    from tfprov.playbook.steps import report_gathered  # noqa: PLC0415

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
