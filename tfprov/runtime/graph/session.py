"""A training session that finds its checkpoint, saves on the chief's disk, and saves once more before it leaves."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfprov.runtime.graph.hooks import Ending, Progress, Rate, Release, Reporting
from tfprov.runtime.graph.session_creator import Creator, Place
from tfprov.runtime.lazy_tensorflow import graph_api
from tfprov.runtime.placement import PlacementFile
from tfprov.runtime.progress import Reporter
from tfprov.runtime.signals import Signals, die, leave

THREADS = 3
"""Seconds the threads of queues have to end after the last save. In a synchronous training the chief's waits for the
gradients of workers that have left: TensorFlow's own 120 s are longer than any launcher's patience."""


@dataclass(frozen=True)
class Options:
    """What the program may choose; see Task.session."""

    train_steps: int | None
    save_every_steps: int | None
    save_every_secs: float | None
    summary_every_steps: int
    keep: int
    progress: Mapping[str, Any]
    progress_every_steps: int
    examples_per_step: int | None
    max_wait_secs: float
    hooks: Sequence[Any]
    scaffold: Any
    config: Any


@contextlib.contextmanager
def training(place: Place, options: Options, signals: Signals) -> Iterator[Any]:
    """The MonitoredSession of one task; leaves with 128 + signal when a signal came before the end of training."""
    v1 = graph_api()
    ending = Ending(options.train_steps, place.replicas, signals)
    scaffold = _scaffold(place, options)
    creator = Creator(place, scaffold, options.config, options.max_wait_secs, ending)
    reporter = Reporter(place.checkpoint_dir, place.name, options.examples_per_step)
    hooks = _hooks(place, options, scaffold, ending, reporter)
    with signals.watched(), contextlib.closing(reporter):
        try:
            with v1.train.MonitoredSession(creator, hooks, stop_grace_period_secs=THREADS) as session:
                yield session
        except (v1.errors.UnavailableError, v1.errors.AbortedError) as error:
            # The loop recovers from these by itself, so it was the last save that failed: earlier ones are on the disk.
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            what = f"{place.name}: a ps was lost before the last checkpoint was saved: {reason}"
            die(what, signals.code if signals.number else 1)
    if signals.number and not ending.finished:
        # Other workers may have stepped on meanwhile: what the chief saved is named by its saver alone.
        end = f"; saved {scaffold.saver.last_checkpoints[-1]}" if place.is_chief else f" at step {ending.step}"
        leave(f"{place.name} stopped by {signals.name}{end}", signals.code)


def _scaffold(place: Place, options: Options) -> Any:
    """The saver's ops go to the chief: by default every variable is saved, and looked for, on the disk of its ps."""
    v1 = graph_api()
    scaffold = options.scaffold or v1.train.Scaffold()
    if scaffold.saver is not None:
        return scaffold
    with v1.device(f"{place.device}/device:CPU:0" if place.device else None):
        # With relative paths the directory can be moved.
        saver = v1.train.Saver(sharded=False, max_to_keep=options.keep, save_relative_paths=True)
    return v1.train.Scaffold(saver=saver, copy_from_scaffold=scaffold)


def _hooks(place: Place, options: Options, scaffold: Any, ending: Ending, reporter: Reporter) -> list[Any]:
    hooks: list[Any] = [ending, Reporting(ending, reporter)]
    if place.is_chief:
        hooks.append(PlacementFile(place.checkpoint_dir, place.device or "/job:worker/task:0"))
        hooks += _chief_hooks(place.checkpoint_dir, options, scaffold)
        hooks.append(Rate(ending, options.summary_every_steps, place.checkpoint_dir))
        if options.progress:
            hooks.append(Progress(ending, options.progress_every_steps, options.progress))
    return [*hooks, *options.hooks, Release(place.replicas)]


def _chief_hooks(directory: str, options: Options, scaffold: Any) -> list[Any]:
    train, every = graph_api().train, options.summary_every_steps
    steps, seconds = options.save_every_steps, options.save_every_secs
    return [
        train.SummarySaverHook(save_steps=every, output_dir=directory, scaffold=scaffold),
        train.CheckpointSaverHook(directory, save_steps=steps, save_secs=seconds, scaffold=scaffold),
    ]


def synchronous(optimizer: Any, replicas: int, is_chief: bool, backup_workers: int = 0) -> tuple[Any, list[Any]]:
    """Return the optimizer that waits for all, and the hooks its session needs.

    Each step takes the first `replicas - backup_workers` gradients. A single replica has nobody to wait for: it gets its
    own optimizer back. Raises ValueError where no gradient would be left to take.
    """
    if not 0 <= backup_workers < replicas:
        raise ValueError(
            f"backup_workers must be from 0 to {replicas - 1} for {replicas} replicas, not {backup_workers}"
        )
    if replicas == 1:
        return optimizer, []
    waiting = graph_api().train.SyncReplicasOptimizer(optimizer, replicas - backup_workers, replicas)
    return waiting, [waiting.make_session_run_hook(is_chief)]
