"""Known causes of a task's failure, by what its log says, and the remedy in one line. Pure."""

import re
from collections.abc import Iterable

_WIRING = (
    "tfprov appends these flags: `wiring: tf_config` leaves them out, and `wiring: {flags: {…}}` calls them otherwise"
)
_FLAGS = "the program knows no such flag: see `flags:`, `command:` and `wiring:` in the inventory"
_LEGACY_KERAS = 'the program needs Keras 2: install tf-keras where it runs and set `env: {TF_USE_LEGACY_KERAS: "1"}`'
_ESTIMATOR = "estimators left TensorFlow with 2.16: run it with TensorFlow 2.15 or older"
_TF1 = (
    "the program is written for TensorFlow 1: `import tensorflow.compat.v1 as tf` instead, or run it with TensorFlow 1"
)
_TENSORFLOW = (
    "install it where the task runs: `pip install 'tfprov[tensorflow]'`, "
    "or `RUN pip install tensorflow` in the Dockerfile"
)
_MODULE = "install the module where the task runs: with pip, or with a line in the Dockerfile"
_SCRIPT = "`command:` names a script that `code:` does not have"
_READY = (
    "a program that serves on no port needs `ready: start`, and one that takes longer to serve a larger `start_timeout`"
)
_PORT = "another program has the port: end it, or choose another `port`"
_LINK = (
    "a relative directory is another one for each task: `checkpoints: {link: DIRECTORY}` leads it to the checkpoint "
    "directory"
)
_ROOM = "make room on the disk of its host"

_NAMES = r"(?:job_name|task_index|ps_hosts|worker_hosts)"
KNOWN_CAUSES: tuple[tuple[str, str], ...] = (
    (rf"unrecognized arguments: .*--{_NAMES}", _WIRING),
    (rf"Unknown command line flag '{_NAMES}'", _WIRING),
    (rf"[Nn]o such option:? '?--{_NAMES}", _WIRING),
    (r"unrecognized arguments: ", _FLAGS),
    (r"Unknown command line flag ", _FLAGS),
    (r"[Nn]o such option:? '?--", _FLAGS),
    (r"PerReplica", _LEGACY_KERAS),
    (r"\breset_states\b", _LEGACY_KERAS),
    (r"Keras 3", _LEGACY_KERAS),
    (r"module 'tensorflow[\w.]*' has no attribute 'estimator'", _ESTIMATOR),
    (r"No module named 'tensorflow_estimator'", _ESTIMATOR),
    (r"module 'tensorflow' has no attribute '(?:contrib|app|placeholder|Session|train|flags|get_variable)'", _TF1),
    (r"No module named 'tensorflow\.contrib", _TF1),
    (r"No module named 'tensorflow'", _TENSORFLOW),
    (r"No module named '", _MODULE),
    (r"can't open file '", _SCRIPT),
    (r"does not serve on ", _READY),
    (r"[Aa]ddress already in use", _PORT),
    (r"No space left on device", _ROOM),
    (r"NotFoundError.*[ :](?!/)[\w.-]+/[^\s;]*model\.ckpt\S*; No such file or directory", _LINK),
)
"""Regular expressions, and what to do where one matches the line that names a failure; the first that does counts."""


def same_cause(words: str) -> str:
    """Return what is equal for all tasks that failed for one reason: the values of their flags are not."""
    return words.partition("=")[0] if "arguments: --" in words else words


def remedy(lines: Iterable[str]) -> str:
    """Return what to do about the failure that `lines` name; empty where its cause is not known."""
    text = tuple(lines)
    return next((cure for pattern, cure in KNOWN_CAUSES if any(re.search(pattern, line) for line in text)), "")
