"""What is checked before a job starts: the network, and the GPUs that Spark assigns. Pure."""

import re
from collections.abc import Callable

from tfprov.errors import Usage

IGNORE_SSL = "tensorflow.spark.distributor.ignoreSsl"
"""The setting with which users of the reference system accept that TensorFlow does not encrypt."""
_LOCAL = re.compile(r"local(?:\[.*\])?|local-cluster\[.*\]")
_ENCRYPTION = ("spark.ssl.enabled", "spark.network.crypto.enabled")

Lookup = Callable[[str, str], str]
"""Returns the value of a Spark setting, or the default."""


def check_network(lookup: Lookup, *, trusted: bool) -> None:
    """Raise Usage for a training whose traffic would leave this machine in clear text, unless that was accepted.

    TensorFlow's servers neither encrypt nor authenticate: who reaches their port can run code. A Spark that encrypts does
    not change that, so it is refused even on one machine.
    """
    if trusted or _is_true(lookup(IGNORE_SSL, "false")):
        return
    accept = f"pass `trusted_network=True`, or set `{IGNORE_SSL}=true`"
    encrypted = next((name for name in _ENCRYPTION if _is_true(lookup(name, "false"))), None)
    if encrypted is not None:
        what = (
            f"Spark encrypts its traffic (`{encrypted}`), and TensorFlow cannot: gradients and data would be clear text"
        )
        raise Usage(what, f"if nobody else can reach the executors' network, {accept}")
    if not _is_on_one_machine(lookup):
        what = "neither Spark nor TensorFlow encrypts here, and whoever reaches an executor's port can run code"
        raise Usage(what, f"if nobody else can reach the executors' network, {accept}")


def _is_on_one_machine(lookup: Lookup) -> bool:
    """Whether all executors are here: the master is a local one, or they reach the driver at a loopback address."""
    driver = lookup("spark.driver.host", "")
    return bool(_LOCAL.fullmatch(lookup("spark.master", ""))) or driver == "localhost" or driver.startswith("127.")


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def gpu_amount(lookup: Lookup, resource: str) -> float:
    """Return the GPUs of a Spark task. Raises ValueError if Spark assigns none, or no number."""
    name = f"spark.task.resource.{resource}.amount"
    text = lookup(name, "")
    if not text:
        raise ValueError(f"use_gpu needs `{name}`, which is not set: set it, or pass `use_gpu=False`")
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"`{name}` must be a number, not {text!r}") from None
