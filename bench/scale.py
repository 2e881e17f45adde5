"""What many hosts cost the controller: `plan`, `status` and `down` where nothing is there, beside Ansible and pyinfra.

The hosts are simulated: each is an address of the loopback behind one sshd, and the engine of each is a program of a few
lines behind the command `docker`, which has no containers and no images. Controller, sshd and engines share this machine,
so the CPU time is that of the controller's processes alone; the wall time is mostly that of the hosts.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.sshd import Sshd

from .measure import Figure, Ran, environment, in_turn, median, say
from .scale_hosts import Hosts, write_hosts

SIZES = (4, 16, 64, 256)
"""Numbers of hosts; the command line may name others."""
GOAL = 0.025
"""Seconds of CPU for each host."""

_SSHD = ("MaxStartups 5000", "MaxSessions 100", "UseDNS no", "LogLevel ERROR")
_INCLUDES = (
    "CPU time of the controller for each host: that of the command and its children, less that of the command with the "
    "fewest hosts; behind it the wall time of the whole command, and its memory. Ansible: `raw: docker ps`, pipelining, 32 "
    "forks, no facts; pyinfra: server.shell with `docker ps`, as many at once"
)


def figures(sizes: Sequence[int], rounds: int, peers: Path) -> list[Figure]:
    """Measure every verb with every number of hosts."""
    with tempfile.TemporaryDirectory() as name, simulated(Path(name)) as server:
        env = environment(
            {"XDG_STATE_HOME": f"{name}/state", "XDG_CACHE_HOME": f"{name}/cache", "HOME": name},
            Path(name) / "byte-code",
        )
        found: dict[int, dict[str, list[Ran]]] = {}
        for size in sizes:
            say(f"{size} simulated hosts, {rounds} rounds")
            hosts = write_hosts(Path(name) / str(size), server, size)
            found[size] = in_turn(_contenders(hosts, peers, env), rounds)
    least = min(sizes)
    return [
        _figure(verb, size, found, least)
        for verb in found[least]
        for size in sizes
        if verb in found[size] and size > least
    ]


@contextmanager
def simulated(directory: Path) -> Iterator[Sshd]:
    """Run the sshd of all hosts, in which the command `docker` is the engine of a host with nothing."""
    commands = directory / "commands"
    commands.mkdir(parents=True)
    docker = commands / "docker"
    docker.write_text(f"#!{sys.executable} -SEI\n{Path(__file__).with_name('scale_engine.py').read_text()}")
    docker.chmod(0o755)
    server = Sshd(directory / "sshd", address="0.0.0.0")  # it can listen on 16 single addresses only
    server.prepare()
    path = f"SetEnv PATH={commands}:/usr/local/bin:/usr/bin:/bin HOME={server.directory}"
    server.options = (path, *_SSHD)  # of several SetEnv, the first counts
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _contenders(hosts: Hosts, peers: Path, env: Mapping[str, str]) -> dict[str, Callable[[], Ran]]:
    tfprov = [sys.executable, "-m", "tfprov"]
    commands = {f"tfprov {verb}": [*tfprov, verb, "-i", str(hosts.inventory)] for verb in ("plan", "status", "down")}
    if (peers / "pyinfra").exists():
        commands["pyinfra"] = [str(peers / "pyinfra"), "-y", "--parallel", "32", "pyinfra_hosts.py", "deploy.py"]
    if (peers / "ansible-playbook").exists():
        commands["ansible"] = [str(peers / "ansible-playbook"), "-i", "ansible.json", "playbook.yml"]
    return {name: _runner(command, env, hosts.peers) for name, command in commands.items()}


def _runner(command: Sequence[str], env: Mapping[str, str], directory: Path) -> Callable[[], Ran]:
    return lambda: controller(command, env, directory)


def controller(command: Sequence[str], env: Mapping[str, str], directory: Path) -> Ran:
    """Run a command; its CPU time is that of the command and of the processes for which it waited."""
    with tempfile.TemporaryFile() as printed:
        begin = time.perf_counter()
        process = subprocess.Popen(
            list(command),
            env=dict(env),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
        end = time.perf_counter()
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        output = printed.read().decode(errors="replace")
    if process.returncode:
        raise RuntimeError(f"{command}: exit code {process.returncode}:\n{output[-3000:]}")
    return Ran(end - begin, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, output)


def _figure(name: str, size: int, found: Mapping[int, Mapping[str, Sequence[Ran]]], least: int) -> Figure:
    """Return the line of a verb and a number of hosts."""

    def each(of: str) -> float:
        return (cpu(found[size][of]) - cpu(found[least][of])) / (size - least)

    def shown(of: str) -> str:
        runs = found[size][of]
        return f"{each(of) * 1000:.1f} ms ({median(runs):.1f} s, {max(run.peak for run in runs) / 2**20:.0f} MB)"

    is_ours = name.startswith("tfprov")
    return Figure(
        f"{name}, {size} hosts",
        shown(name) if is_ours else "",
        "" if is_ours else shown(name),
        None,
        f"<= {GOAL * 1000:.0f} ms" if is_ours else "",
        each(name) <= GOAL if is_ours else None,
        includes=_INCLUDES,
    )


def cpu(runs: Sequence[Ran]) -> float:
    """Return the least CPU time: other work on the machine only adds to it."""
    return min(run.cpu for run in runs)
