"""`local_mode`: the function runs in the driver, with GPUs of the driver."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfprov.spark.distributor.slots import choose_gpus

_VISIBLE = "CUDA_VISIBLE_DEVICES"


def check_local(slots: int, addresses: Sequence[str] | None) -> None:
    """Raise ValueError for slots that the driver does not have; `addresses` are its GPUs, None without `use_gpu`."""
    if addresses is None and slots > 1:
        what = f"local_mode without GPUs has one slot, the driver's process, not {slots}"
        raise ValueError(f"{what}: use num_slots=1, or local_mode=False")
    if addresses is not None and len(addresses) < slots:
        what = f"num_slots={slots} is more than the {len(addresses)} GPUs of the driver"
        raise ValueError(f"{what}: set `spark.driver.resource.gpu.amount` and its discovery script, or lower num_slots")


@contextlib.contextmanager
def visible_devices(slots: int, addresses: Sequence[str] | None) -> Iterator[None]:
    """Set CUDA_VISIBLE_DEVICES in the block, and restore it after it."""
    before = os.environ.get(_VISIBLE)
    os.environ[_VISIBLE] = "-1" if addresses is None else choose_gpus(addresses, slots, before)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VISIBLE]
        else:
            os.environ[_VISIBLE] = before


def run_here(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, wraps: bool) -> Any:
    """Call `function` in this process; with `wraps`, in the scope of a MirroredStrategy."""
    if not wraps:
        return function(*args, **kwargs)
    import tensorflow as tf  # noqa: PLC0415

    with tf.distribute.MirroredStrategy().scope():
        return function(*args, **kwargs)
