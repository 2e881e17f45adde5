"""Reading through tf.data's service, where the cluster has one: other machines prepare the batches."""

import os
from typing import Any

from tfprov.runtime.eager.member import Batches
from tfprov.runtime.lazy_tensorflow import tensorflow

DATA_SERVICE = "TFPROV_DATA_SERVICE"
"""The variable with the dispatcher's address, such as `grpc://10.0.0.12:2222`; not set where there is none."""


def served(make: Batches, *, job: str = "train") -> Batches:
    """Return what `task.batches` takes: batches that the data workers make, or `make` itself where there are none.

    Then nobody has a shard: every data worker goes through the whole dataset, which is to be endless, in an order of its
    own, and each batch goes to one of those who read under the same `job`. What `make` uses must be on the data workers.
    """
    address = os.environ.get(DATA_SERVICE)
    if not address:
        return make

    def from_service(_shard: Any, _shards: int) -> Any:
        service = tensorflow().data.experimental.service
        whole = service.distribute(service.ShardingPolicy.OFF, address, job_name=job)
        return make(0, 1).apply(whole).prefetch(2)

    return from_service
