"""The same for the processes that the driver starts itself: Python imports this module wherever it starts.

The worker of a stream's source comes from no daemon, and Spark waits 10 seconds for it, by a number in its code: on a busy
machine its imports alone would take them. It is a fork of the server at TFPROV_TESTS_SPARK_WORKERS (see warm.py).
"""

import os
import sys

if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    from tests.support.spark_preload import preload

    preload()
elif (
    sys.orig_argv[1:3] == ["-m", "pyspark.sql.streaming.python_streaming_source_runner"]
    # Removed: where this worker cannot be a fork, an interpreter takes its place and comes by here again.
    and (address := os.environ.pop("TFPROV_TESTS_SPARK_WORKERS", ""))
):
    from tests.support.warm_client import stand_in

    os._exit(stand_in(address, sys.executable, sys.orig_argv[1:]))
