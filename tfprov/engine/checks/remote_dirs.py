"""Whether the chief's host can write, read and remove files in the remote checkpoint directory."""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfprov.engine.checks.host_rules import Finding, failed, note, ok
from tfprov.engine.context import Context
from tfprov.errors import HostError, InvalidInput, Problem, one_line
from tfprov.filesystems.urls import SCHEMES, Scheme, scheme_of
from tfprov.hosts.docker.image_contents import run_in_image
from tfprov.hosts.docker.reachability_probe import temporary
from tfprov.hosts.docker.remote_probe import probe_in_container
from tfprov.hosts.machine import Machine
from tfprov.hosts.process.spec import SAFE_PATH, environment
from tfprov.hosts.program_checks import module_command
from tfprov.model.state import Container
from tfprov.paths import PACKAGE

CHECK = "checkpoints"
MODULE = "tfprov.runtime.mirror.probe"
_TIMEOUT = 180
"""Seconds for a probe, most of them for a server that does not answer."""


def of_host(context: Context, host: str) -> Iterator[Finding]:
    """Try the remote directory from this machine, as the process that writes there would."""
    chief = chief_with_remote(context, host)
    if chief is not None:
        line = request(chief.remote or "", context.cluster.name, chief)
        yield judge(chief, run_here(chief.python or chief.argv[0], chief, line))


def of_machine(context: Context, machine: Machine, chief: Container) -> Finding:
    """Try the remote directory in a temporary container of the chief's image, which the host must have."""
    line = request(chief.remote or "", context.cluster.name, chief)
    try:
        argv = module_command(chief.argv[0], MODULE)
        answer = probe_in_container(machine.engine, chief, context.cluster.name, argv, line)
    except HostError as error:
        return failed(CHECK, f"{chief.remote} was not tried: {error.reason}", "look at the host's engine")
    return judge(chief, answer)


def chief_with_remote(context: Context, host: str) -> Container | None:
    """Return the chief's container if it is on `host` and has a remote directory."""
    chief = context.container(context.cluster.chief.name)
    return chief if chief is not None and chief.remote and chief.task.host == host else None


def refuse_without_client(context: Context, starting: Sequence[Container]) -> None:
    """Raise InvalidInput if the Python of a task to start lacks the client of its remote directory."""
    problems = []
    roles = {(role.role, role.host): role for role in context.roles}
    for container in starting:
        role = roles[container.task.role, container.task.host]
        scheme = SCHEMES.get(scheme_of(container.remote or "") or "")
        if scheme is not None and not _has_client(context, container, scheme):
            what = f"`checkpoints.dir`: {scheme.name}:// needs the Python package {scheme.package}"
            where = "the image has not" if container.docker else f"{_python(container)} has not"
            fix = _fix(container, scheme)
            problems.append(Problem(role.at("checkpoints", "dir"), f"{what}, which {where}", fix))
    if problems:
        raise InvalidInput(problems)


def _python(container: Container) -> str:
    return container.python or container.argv[0]


def _fix(container: Container, scheme: Scheme) -> str:
    if container.docker is not None:
        return client_fix(scheme.package)
    return f"run `{_python(container)} -m pip install {scheme.package}`"


def find_client(module: str) -> str:
    """Return the program, for any Python 3, that ends with _NO_CLIENT where `module` is not installed."""
    return f"import importlib.util as u, sys; sys.exit({_NO_CLIENT} if u.find_spec({module!r}) is None else 0)"


def _has_client(context: Context, container: Container, scheme: Scheme) -> bool:
    """Whether a Python finds the client's package; True where that cannot be tried."""
    find = find_client(scheme.module)
    if container.docker is None:
        argv = [_python(container), "-c", find]
        try:
            done = subprocess.run(argv, env=environment(container), capture_output=True, check=False, timeout=_TIMEOUT)
        except (OSError, subprocess.TimeoutExpired):
            return True
        return done.returncode != _NO_CLIENT
    machine = context.machines.get(container.task.host)
    if machine is None:
        return True
    labels = temporary(context.cluster.name)
    try:
        return run_in_image(machine.engine, container, labels, [container.argv[0], "-c", find]) != _NO_CLIENT
    except HostError:
        return True


_NO_CLIENT = 3
"""The exit code of a Python without the client."""


def request(url: str, cluster: str, container: Container, *, reads: bool = False) -> bytes:
    """Return the line that asks the probe to try a directory; one that it only reads need not belong to the cluster."""
    asked = {"url": url, "cluster": cluster, "env": dict(container.env), "reads": reads}
    return json.dumps(asked).encode() + b"\n"


def run_here(python: str, container: Container, line: bytes) -> bytes:
    """Run the probe on this machine with `line` on its standard input, and return its output."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / PACKAGE.name).symlink_to(PACKAGE)  # tfprov alone, without its neighbours
        variables = {**environment(container, Path(folder)), **SAFE_PATH}
        try:
            done = subprocess.run(
                [python, "-m", MODULE],
                input=line, env=variables, capture_output=True, check=False, timeout=_TIMEOUT,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            return json.dumps({"error": one_line(str(error))}).encode()
    return done.stdout or done.stderr


def judge(container: Container, answer: bytes) -> Finding:
    """Return the finding for what a probe has printed."""
    facts = parse(answer)
    if facts is None:
        last = last_line(answer)
        if "No module named" in last and "tfprov" in last:
            what = f"{container.remote} was not tried: the image has tfprov's runtime only once the task is started"
            return note(CHECK, what)
        return failed(CHECK, f"{container.remote} was not tried: {one_line(last)[:200]}", "look at its Python")
    if "error" in facts:
        scheme = SCHEMES.get(str(facts.get("missing")))
        fix = _fix(container, scheme) if scheme is not None else str(facts.get("fix", ""))
        return failed(CHECK, one_line(str(facts["error"])), one_line(fix))
    newest = facts.get("newest")
    holds = f"holds {newest}" if newest else "is empty"
    return ok(CHECK, f"{container.remote} can be written, read and cleaned, and {holds}")


def client_fix(package: str) -> str:
    """Return how an image gets the package of a client."""
    return f"add `pip install {package}` to its Dockerfile, or `build_args: {{CLIENTS: {package}}}` for tfprov's own"


def last_line(answer: bytes) -> str:
    """Return the last line of a probe that failed."""
    return (answer.decode(errors="replace").strip().splitlines() or ["no answer"])[-1]


def parse(answer: bytes) -> Mapping[str, Any] | None:
    """Return the facts that a probe has printed; None for a probe that failed."""
    for line in reversed(answer.splitlines()):
        try:
            facts = json.loads(line)
        except ValueError:
            continue
        return facts if isinstance(facts, dict) else None
    return None
