"""The same for the daemons of the driver, which Spark starts itself: Python imports this module wherever it starts."""

import sys

if sys.orig_argv[1:3] == ["-m", "pyspark.daemon"]:
    from tests.support.spark_preload import preload

    preload()
