"""The training session: restores the newest checkpoint, saves on the chief's disk, and saves again before it leaves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfprov.runtime.graph.hooks import ProgressHook, ReleaseHook, ReportingHook, StepRateHook, StopHook
from tfprov.runtime.graph.session_creator import SessionContext, SessionCreator
from tfprov.runtime.lazy_tensorflow import graph_api
from tfprov.runtime.peer_watch import PeerWatch
from tfprov.runtime.placement import PlacementFile
from tfprov.runtime.progress import ProgressWriter
from tfprov.runtime.signals import Signals, die, exit_now, leave

THREAD_GRACE = 3
"""Seconds queue threads have to end after the last save. In a synchronous training the chief's thread waits for gradients
of workers that have left: TensorFlow's default of 120 s exceeds every launcher's timeout."""
_PEER_INTERVAL = 5.0
"""Seconds between two checks of a peer: each worker asks each ps."""


@dataclass(frozen=True)
class SessionOptions:
    """Options of `Task.session`."""

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
def training_session(context: SessionContext, options: SessionOptions, signals: Signals) -> Iterator[Any]:
    """Open the MonitoredSession of one task; exit with 128 + signal when one came before the end of training."""
    v1 = graph_api()
    stop_hook = StopHook(options.train_steps, context.replicas, signals)
    scaffold = _make_scaffold(context, options)
    creator = SessionCreator(context, scaffold, options.config, options.max_wait_secs, stop_hook)
    reporter = ProgressWriter(context.checkpoint_dir, context.name, options.examples_per_step)
    hooks = _make_hooks(context, options, scaffold, stop_hook, reporter)
    with signals.handled(), contextlib.closing(reporter), _peer_watch(context, options.max_wait_secs) as watch:
        try:
            with v1.train.MonitoredSession(creator, hooks, stop_grace_period_secs=THREAD_GRACE) as session:
                watch.start()
                yield session
        except (v1.errors.UnavailableError, v1.errors.AbortedError) as error:
            # The loop recovers from these itself, so the last save failed: earlier ones are on the disk.
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            message = f"{context.name}: a ps was lost before the last checkpoint was saved: {reason}"
            die(message, signals.code if signals.number else 1)
    if signals.number and not stop_hook.finished:
        # Other workers may have taken steps meanwhile: only the saver knows the step it saved.
        saved = scaffold.saver.last_checkpoints if context.is_chief else ()  # none for one that keeps all
        end = f"; saved {saved[-1]}" if saved else f" at step {stop_hook.step}"
        leave(f"{context.name} stopped by {signals.name}{end}", signals.code)


@contextlib.contextmanager
def _peer_watch(context: SessionContext, patience: float) -> Iterator[PeerWatch]:
    """Yield what ends the task, once it has started with a session, when a peer is silent for `patience` seconds.

    A step with a peer that hangs never returns.
    """

    def lost(peer: str) -> None:
        exit_now(f"error: {context.name}: no answer from {peer} for {patience:g} s", 1)

    watch = PeerWatch(dict(context.peers), lost, _PEER_INTERVAL, patience, was_up=True)
    try:
        yield watch
    finally:
        watch.stop()


def _make_scaffold(context: SessionContext, options: SessionOptions) -> Any:
    """Place the saver's ops on the chief: by default each variable is saved and restored on the disk of its ps."""
    v1 = graph_api()
    scaffold = options.scaffold or v1.train.Scaffold()
    if scaffold.saver is not None:
        return scaffold
    with v1.device(f"{context.device}/device:CPU:0" if context.device else None):
        # Relative paths, so that the directory can be moved.
        saver = v1.train.Saver(sharded=False, max_to_keep=options.keep, save_relative_paths=True)
    return v1.train.Scaffold(saver=saver, copy_from_scaffold=scaffold)


def _make_hooks(
    context: SessionContext, options: SessionOptions, scaffold: Any, stop_hook: StopHook, reporter: ProgressWriter
) -> list[Any]:
    hooks: list[Any] = [stop_hook, ReportingHook(stop_hook, reporter)]
    if context.is_chief:
        hooks.append(PlacementFile(context.checkpoint_dir, context.device or "/job:worker/task:0"))
        hooks += _make_chief_hooks(context.checkpoint_dir, options, scaffold)
        hooks.append(StepRateHook(stop_hook, options.summary_every_steps, context.checkpoint_dir))
        if options.progress:
            hooks.append(ProgressHook(stop_hook, options.progress_every_steps, options.progress))
    return [*hooks, *options.hooks, ReleaseHook(context.replicas)]


def _make_chief_hooks(directory: str, options: SessionOptions, scaffold: Any) -> list[Any]:
    train, every = graph_api().train, options.summary_every_steps
    steps, seconds = options.save_every_steps, options.save_every_secs
    return [
        train.SummarySaverHook(save_steps=every, output_dir=directory, scaffold=scaffold),
        train.CheckpointSaverHook(directory, save_steps=steps, save_secs=seconds, scaffold=scaffold),
    ]


def synchronous(optimizer: Any, replicas: int, is_chief: bool, backup_workers: int = 0) -> tuple[Any, list[Any]]:
    """Return the synchronous optimizer, and the hooks its session needs.

    Each step takes the first `replicas - backup_workers` gradients. A single replica gets its
    own optimizer back. Raises ValueError where no gradient would be left to take.
    """
    if not 0 <= backup_workers < replicas:
        raise ValueError(
            f"backup_workers must be from 0 to {replicas - 1} for {replicas} replicas, not {backup_workers}"
        )
    if replicas == 1:
        return optimizer, []
    synchronous_optimizer = graph_api().train.SyncReplicasOptimizer(optimizer, replicas - backup_workers, replicas)
    return synchronous_optimizer, [synchronous_optimizer.make_session_run_hook(is_chief)]
