"""Synchronous training: every step is one update, of the mean of the gradients of all replicas, or of the first so many.

A replica's gradient counts only for the step whose variables it was computed from: a later one is dropped, which is what
makes backup workers right, and what a restarted task needs. How every replica reaches the end is `hooks.Release`.
"""

from typing import Any

from tfprov.runtime.lazy import graph_api


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
