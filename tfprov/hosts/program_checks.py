"""Check whether a Python can import TensorFlow, and explain commands that cannot start."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tfprov.errors import closest, one_line

IMPORT_TIMEOUT = 100
"""Seconds until the program gives up; importing from a slow disk takes half a minute."""

IMPORT_PROGRAM = """
import os, sys, threading, time
timer = threading.Timer(float(sys.argv[1]), os._exit, (3,))
timer.daemon = True
timer.start()
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
began = time.time()
try:
    import tensorflow
    message = "@imported %s %.1f" % (tensorflow.__version__, time.time() - began)
except BaseException as error:
    message = "@failed %s: %s" % (type(error).__name__, (str(error).strip() or "-").split("\\n")[0])
print(message)
sys.stdout.flush()
os._exit(0)
"""
"""For any Python 3. It exits without the libraries' clean-up, which can take a second."""

_RUN_MODULE = (
    "import sys; sys.path[:] = filter(None, sys.path); import runpy; "
    "runpy.run_module({!r}, run_name='__main__', alter_sys=True)"
)


def module_command(python: str, module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of tfprov in an image, for any Python 3.

    `python -m` would import from the image's working directory first, where a program may have a `json.py` of its own;
    PYTHONSAFEPATH and `-P` need Python 3.11, and `-I` leaves out PYTHONPATH, where tfprov is.
    """
    return [python, "-c", _RUN_MODULE.format(module), *arguments]


@dataclass(frozen=True)
class ImportResult:
    """The result of an import: the `version` and the duration in `seconds`, or the `error`.

    `absent`: TensorFlow is not installed. `late`: the import exceeded IMPORT_TIMEOUT.
    """

    version: str = ""
    seconds: float = 0.0
    error: str = ""
    absent: bool = False
    late: bool = False


def parse_result(code: int, output: str) -> ImportResult:
    """Return the result of IMPORT_PROGRAM from its exit code and its output, which may be anything."""
    if match := re.search(r"^@imported (\S+) (\d+\.\d)$", output, re.MULTILINE):
        return ImportResult(match[1], float(match[2]))
    if failure := re.search(r"^@failed (.*)$", output, re.MULTILINE):
        text = one_line(failure[1])
        return ImportResult(error=text, absent=re.search(r"No module named .tensorflow.$", text) is not None)
    if code == 3:
        return ImportResult(error=f"not done after {IMPORT_TIMEOUT} s", late=True)
    if code in (132, -4):
        return ImportResult(error="ended by SIGILL: this CPU cannot run it")
    return ImportResult(error=one_line(output.strip().rpartition("\n")[2])[:200] or f"exit code {code}")


def try_import_locally(python: str, env: Mapping[str, str]) -> ImportResult:
    """Import TensorFlow with `python` on this machine, in the environment of a task."""
    try:
        with tempfile.TemporaryDirectory() as empty_directory:  # the current directory comes first in sys.path
            completed = subprocess.run(
                [python, "-c", IMPORT_PROGRAM, str(IMPORT_TIMEOUT)], env=dict(env), cwd=empty_directory,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                timeout=2 * IMPORT_TIMEOUT, check=False,
            )  # fmt: skip
    except subprocess.TimeoutExpired:
        return ImportResult(error=f"not done after {2 * IMPORT_TIMEOUT} s", late=True)
    except OSError as error:
        return ImportResult(error=one_line(error.strerror or str(error)))
    return parse_result(completed.returncode, completed.stdout.decode("utf-8", errors="replace"))


COMMON_PROGRAMS = ("python", "python3", "bash", "sh", "env", "tensorboard", "torchrun", "horovodrun")
"""Programs that commands usually start with, to compare with: those of a container are unknown."""
_SIMILARITY = 0.7


def suggest_correction(name: str, programs: Iterable[str] = COMMON_PROGRAMS) -> str:
    """Return the fix for a command whose program `name` is not one of `programs`."""
    close = closest(Path(name).name, sorted(programs), cutoff=_SIMILARITY)
    return f"did you mean `{close}`? correct `command:`" if close else "correct `command:`"


def start_error(error: OSError, name: str, environment: Mapping[str, str], work: Path) -> str:
    """Return why the program `name` could not be started in the directory `work`, and the fix."""
    if not isinstance(error, FileNotFoundError | PermissionError):
        return f"{error.strerror or error}: {name}"
    if isinstance(error, PermissionError):
        return f"the program `{name}` may not be executed; `chmod +x` it, or name its interpreter in `command:`"
    is_path = os.sep in name
    path = environment.get("PATH", os.defpath)
    directories = [(work / name).parent] if is_path else [Path(directory) for directory in path.split(os.pathsep)]
    problem = f"the file `{name}` does not exist" if is_path else f"there is no program `{name}`"
    return f"{problem}; {suggest_correction(name, _executables(directories))}"


def _executables(directories: Iterable[Path]) -> set[str]:
    match: set[str] = set()
    for directory in directories:
        try:
            match.update(entry.name for entry in os.scandir(directory) if os.access(entry.path, os.X_OK))
        except OSError:
            continue
    return match
