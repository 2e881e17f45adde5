"""Start Jupyter with a token that nobody can guess and that no command line shows.

    python -m tfprov.runtime.notebook --ip=127.0.0.1 --port=8888

The token is the value of JUPYTER_TOKEN, else a new one. It is written to TOKEN_FILE in the working directory, where
`tfprov notebook` reads it; only the task's user can. A restart in the same directory keeps the token.

Exit codes: those of Jupyter; 1 without Jupyter or without a token (one line on stderr), 2 for invalid flags.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import secrets
import sys
import tempfile
from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path
from typing import NoReturn

from tfprov.runtime.signals import die

TOKEN_FILE = ".tfprov-notebook-token"  # noqa: S105  the name of a file
VARIABLE = "JUPYTER_TOKEN"
_SERVERS = {"jupyterlab": "lab", "notebook": "notebook", "jupyter_server": "server"}
"""Jupyter's servers by their Python package, the one with the most features first."""


def main(
    argv: Sequence[str],
    environ: MutableMapping[str, str],
    is_installed: Callable[[str], object] = importlib.util.find_spec,
    become: Callable[[str, list[str], dict[str, str]], NoReturn] = os.execve,
) -> NoReturn:
    """Become Jupyter."""
    options, more = _parser().parse_known_args(argv)
    package = next((name for name in _SERVERS if is_installed(name)), None)
    if package is None or not is_installed("jupyter_core"):
        die("Jupyter is not installed: add `RUN pip install jupyterlab` to the Dockerfile, or `pip install jupyterlab`")
    chosen = environ.get(VARIABLE, "")
    try:
        environ[VARIABLE] = token(Path.cwd(), chosen)
    except OSError as error:  # code that is mounted read-only, as in a Compose file
        if not chosen:
            die(f"no token can be written to {Path.cwd()}: {error.strerror}; set {VARIABLE} in `env` of the notebook")
    if not os.access(environ.get("HOME", "/"), os.W_OK):  # Jupyter writes there; a user id may have no home
        environ["HOME"] = tempfile.gettempdir()
    # Without the name of a class, which is another one in version 6 of the package notebook.
    words = [f"--ip={options.ip}", f"--port={options.port}", "--port-retries=0"]
    command = [sys.executable, "-m", "jupyter", _SERVERS[package], "--no-browser", *words, *_as_root(), *more]
    become(sys.executable, command, dict(environ))


def token(directory: Path, chosen: str) -> str:
    """Return the token, and write it to `directory`: `chosen`, else the one of an earlier start there, else a new one."""
    file = directory / TOKEN_FILE
    value = chosen or _read(file) or secrets.token_urlsafe(32)
    file.unlink(missing_ok=True)  # a copy of someone else's may be readable for others
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(value)
    return value


def _read(file: Path) -> str:
    try:
        return file.read_text().strip() if file.stat().st_uid == os.getuid() else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _as_root() -> list[str]:
    """Return what lets root run Jupyter, as in images without a user of their own."""
    return ["--allow-root"] if os.getuid() == 0 else []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tfprov.runtime.notebook", allow_abbrev=False)
    parser.add_argument("--ip", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=8888, help="the port to listen on")
    return parser


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
