"""A bare TensorFlow server, which runs whatever its clients send: for clients that drive a cluster from outside.

    python -m tfprov.runtime.server

Its job, index and cluster come from TF_CONFIG or the four flags. It has no program of its own and ends by a signal.

Exit codes: 143 after SIGTERM, 130 after Ctrl-C, 1 when it cannot serve, 2 for an invalid TF_CONFIG or flags.
"""

from __future__ import annotations

import os
from typing import NoReturn

from tfprov.runtime.eager.parameter_server import server_threads
from tfprov.runtime.join_cluster import check_cluster, ps_devices, read_wiring, serve
from tfprov.runtime.lazy_tensorflow import graph_api


def main() -> NoReturn:
    """Serve until a signal."""
    wiring = read_wiring(check_cluster)
    if wiring.job == "ps":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    serve(wiring, graph_api().ConfigProto(inter_op_parallelism_threads=server_threads(), **ps_devices(wiring)))


if __name__ == "__main__":
    main()
