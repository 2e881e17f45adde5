"""Whether a host can read the remote directory with its tasks' data."""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfprov.engine.checks.host_rules import Finding, failed, note, ok
from tfprov.engine.checks.remote_dirs import MODULE, client_fix, last_line, parse, request, run_here
from tfprov.engine.context import Context
from tfprov.errors import HostError, one_line
from tfprov.filesystems.urls import SCHEMES
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.remote_probe import probe_in_container
from tfprov.hosts.program_checks import module_command
from tfprov.model.state import Container

CHECK = "data"
_PYTHON = "python3"
"""Copies the data in a container, see `hosts.data_download.fetch_command`."""


def readers(context: Context, host: str) -> Iterator[tuple[str, Container]]:
    """Yield the remote directories that are copied to `host`, each with a task there that reads it."""
    first = {it.data: it for it in reversed(context.wanted) if it.data is not None and it.task.host == host}
    for artifact, container in first.items():
        if (url := context.data[artifact].data.remote) is not None:
            yield url, container


def of_host(context: Context, host: str) -> Iterator[Finding]:
    """Try the data directories of this machine, with the Python that copies them."""
    for url, container in readers(context, host):
        answer = run_here(sys.executable, container, request(url, context.cluster.name, container, reads=True))
        yield judge(url, answer, lambda package: f"run `{sys.executable} -m pip install {package}`")


def in_container(engine: Engine, cluster: str, url: str, container: Container) -> Finding:
    """Try a data directory in a temporary container of a task's image, which the host must have."""
    line = request(url, cluster, container, reads=True)
    try:
        answer = probe_in_container(engine, container, cluster, module_command(_PYTHON, MODULE), line)
    except HostError as error:
        return failed(CHECK, f"{url} was not tried: {error.reason}", "look at the host's engine")
    return judge(url, answer, client_fix)


def judge(url: str, answer: bytes, install: Callable[[str], str]) -> Finding:
    """Return the finding for what a probe has printed; `install` returns the fix for a missing package."""
    facts = parse(answer)
    if facts is None:
        last = last_line(answer)
        if "No module named" in last and "tfprov" in last:
            return note(CHECK, f"{url} was not tried: the image has no tfprov.runtime")
        return failed(CHECK, f"{url} was not tried: {one_line(last)[:200]}", "look at its Python")
    if "error" in facts:
        return failed(CHECK, one_line(str(facts["error"])), one_line(_fix(facts, install)))
    files = facts.get("files")
    return ok(CHECK, f"{url} can be read: {files} file{'' if files == 1 else 's'}, {facts.get('bytes')} bytes")


def _fix(facts: Mapping[str, Any], install: Callable[[str], str]) -> str:
    scheme = SCHEMES.get(str(facts.get("missing")))
    return install(scheme.package) if scheme is not None else str(facts.get("fix", ""))
