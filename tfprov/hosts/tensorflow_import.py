"""Whether a Python can import TensorFlow: the program that tries it, what it prints, and a Python of this machine."""

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from tfprov.errors import one_line

LIFE = 100
"""Seconds until the program gives up; an import from a slow disk takes half a minute."""

TRY = """
import os, sys, threading, time
timer = threading.Timer(float(sys.argv[1]), os._exit, (3,))
timer.daemon = True
timer.start()
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
began = time.time()
try:
    import tensorflow
    told = "@imported %s %.1f" % (tensorflow.__version__, time.time() - began)
except BaseException as error:
    told = "@failed %s: %s" % (type(error).__name__, (str(error).strip() or "-").split("\\n")[0])
print(told)
sys.stdout.flush()
os._exit(0)
"""
"""For any Python 3; it ends without the libraries' own clean-up, which takes as long as a second."""


@dataclass(frozen=True)
class Imported:
    """What became of an import: the `version` and the `seconds` it took, or the `trouble` there was.

    `absent` says that TensorFlow is not installed, and `late` that it took longer than LIFE.
    """

    version: str = ""
    seconds: float = 0.0
    trouble: str = ""
    absent: bool = False
    late: bool = False


def read(code: int, output: str) -> Imported:
    """Return what a run of TRY that ended with `code` tells; any output can be read."""
    if found := re.search(r"^@imported (\S+) (\d+\.\d)$", output, re.MULTILINE):
        return Imported(found[1], float(found[2]))
    if failed := re.search(r"^@failed (.*)$", output, re.MULTILINE):
        text = one_line(failed[1])
        return Imported(trouble=text, absent=re.search(r"No module named .tensorflow.$", text) is not None)
    if code == 3:
        return Imported(trouble=f"not done after {LIFE} s", late=True)
    if code in (132, -4):
        return Imported(trouble="ended by SIGILL: this CPU cannot run it")
    return Imported(trouble=one_line(output.strip().rpartition("\n")[2])[:200] or f"exit code {code}")


def try_here(python: str, env: Mapping[str, str]) -> Imported:
    """Import TensorFlow in `python`, a program of this machine, with the environment of a task."""
    try:
        with tempfile.TemporaryDirectory() as nowhere:  # its directory comes first in the path of modules
            done = subprocess.run(
                [python, "-c", TRY, str(LIFE)], env=dict(env), cwd=nowhere, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2 * LIFE, check=False,
            )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Imported(trouble=f"not done after {2 * LIFE} s", late=True)
    except OSError as error:
        return Imported(trouble=one_line(error.strerror or str(error)))
    return read(done.returncode, done.stdout.decode("utf-8", errors="replace"))
