"""Whether a Python can import TensorFlow: the program that tries it, what it prints, and a Python of this machine."""

import difflib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

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


def parse_result(code: int, output: str) -> Imported:
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
    return parse_result(done.returncode, done.stdout.decode("utf-8", errors="replace"))


USUAL = ("python", "python3", "bash", "sh", "env", "tensorboard", "torchrun", "horovodrun")
"""What commands begin with: of a container nobody knows which programs it has."""
_ALIKE = 0.7


def correction(name: str, programs: Iterable[str] = USUAL) -> str:
    """Return how to mend a command that begins with `name`, which is none of the `programs`."""
    close = difflib.get_close_matches(Path(name).name, sorted(programs), n=1, cutoff=_ALIKE)
    return f"did you mean `{close[0]}`? correct `command:`" if close else "correct `command:`"


def unstartable(error: OSError, name: str, environment: Mapping[str, str], work: Path) -> str:
    """Return why the program `name` could not be started in the directory `work`, and how to mend it."""
    if not isinstance(error, FileNotFoundError | PermissionError):
        return f"{error.strerror or error}: {name}"
    if isinstance(error, PermissionError):
        return f"the program `{name}` may not be executed; `chmod +x` it, or name its interpreter in `command:`"
    is_path = os.sep in name
    path = environment.get("PATH", os.defpath)
    places = [(work / name).parent] if is_path else [Path(place) for place in path.split(os.pathsep)]
    what = f"the file `{name}` does not exist" if is_path else f"there is no program `{name}`"
    return f"{what}; {correction(name, _executables(places))}"


def _executables(places: Iterable[Path]) -> set[str]:
    found: set[str] = set()
    for place in places:
        try:
            found.update(entry.name for entry in os.scandir(place) if os.access(entry.path, os.X_OK))
        except OSError:
            continue
    return found
