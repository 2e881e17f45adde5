"""The images of a cluster, and those that the controller keeps: built, delivered, listed and pruned by themselves."""

import time
from collections.abc import Iterator, Mapping

from tfprov.engine.context import Context
from tfprov.engine.execute import execute
from tfprov.engine.lock.cluster_lock import ClusterLock
from tfprov.engine.observe import observe
from tfprov.errors import Usage
from tfprov.hosts.machine import Machine
from tfprov.images.engine_images import list_tags, remove_old_tags
from tfprov.images.oci_layout import Layout
from tfprov.paths import cache_home
from tfprov.planning.plan_text import NOTHING
from tfprov.planning.reconcile import describe_artifact, plan_deliveries
from tfprov.results import PruneResult, StoredImage


def stored_images() -> list[StoredImage]:
    """Return the images that the controller keeps; `size` is what a host that has no layer of one would be sent."""
    images = Layout(cache_home() / "images").images()
    return [StoredImage("controller", name, image.id, image.size, image.platform) for name, image in images.items()]


def prune_stored(keep: int) -> int:
    """Remove all stored images but the `keep` last used ones and those in use by another run; return the bytes freed."""
    return Layout(cache_home() / "images").prune(keep)


class ClusterImages:
    """The images of one cluster: built, delivered, listed and pruned without starting a task.

    Raises Usage for a cluster whose tasks are processes.
    """

    def __init__(self, context: Context) -> None:
        if not context.machines:
            raise Usage("this cluster has no image: its tasks are processes", "give an `image` under `tfprov:`")
        self._context, self._repository = context, f"tfprov/{context.cluster.name}"

    def build(self) -> None:
        """Build every image that the controller lacks."""
        report = self._context.report
        for name, artifact in self._context.artifacts.items():
            if artifact.ready:
                report.note(f"{describe_artifact(name)} is there")
            else:
                begin = time.monotonic()
                artifact.build()
                report.note(f"{describe_artifact(name)} built in {time.monotonic() - begin:.1f} s")

    def deliver(self) -> None:
        """Deliver the images to every host that lacks them."""
        context = self._context
        plan = plan_deliveries(context.cluster.name, context.wanted, observe(context))
        part = plan.only(lambda a: a.kind == "build" or (a.kind == "deliver" and context.allows(a.host)))
        if not any(action.kind == "deliver" for action in part.actions):
            context.report.note(f"{NOTHING}: the image is on every host")
            return
        with ClusterLock(context, "image deliver"):
            context.remember()
            execute(context, part).check()

    def on_hosts(self) -> list[StoredImage]:
        """Return the images of the cluster that its hosts have."""
        return [
            StoredImage(host, f"{self._repository}:{tag}", image_id)
            for host, machine in self._machines().items()
            for tag, image_id in list_tags(machine.engine, self._repository).items()
        ]

    def prune(self) -> Iterator[PruneResult]:
        """Remove the cluster's images and fetched data that no task uses from each host; yield what was removed."""
        runtimes = self._context.runtimes
        for host, machine in self._machines().items():
            before = len(list_tags(machine.engine, self._repository))
            remove_old_tags(machine.engine, self._repository, 0)
            removed = before - len(list_tags(machine.engine, self._repository))
            yield PruneResult(host, removed, runtimes[host].remove_unused_data(()) if host in runtimes else 0)

    def _machines(self) -> Mapping[str, Machine]:
        context = self._context
        return {host: machine for host, machine in context.machines.items() if context.allows(host)}
