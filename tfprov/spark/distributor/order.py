"""What the driver sends to the tasks of a training, and what a task sends to its process."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Order:
    """What a process runs: a pickled (function, args, kwargs), or a server if that is None.

    `wraps` is the strategy of tf.distribute in whose scope the function is called; empty for none. `result` is the file for
    its value, which is written empty unless `returns`.
    """

    function: bytes | None
    wraps: str
    result: str
    returns: bool


@dataclass(frozen=True)
class Plan:
    """A training as every task knows it. `names` are the tasks by partition; the first is the chief.

    `driver` is the address of the driver's log server, None where tasks cannot reach it. `gpus` is the number of GPU slots,
    0 without GPUs. `checkpoint_dir` is the chief's, on a file system of the executors; None for a scratch directory, whose
    newest checkpoint is sent back if `gather`.
    """

    names: tuple[str, ...]
    strategy: str
    wraps: str
    function: bytes = field(repr=False)
    token: str = field(repr=False)
    driver: tuple[str, int] | None = None
    gpus: int = 0
    gpu_resource: str = "gpu"
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    checkpoint_dir: str | None = None
    gather: bool = False
