"""What many hosts cost the controller, verb by verb, beside Ansible and pyinfra.

The hosts are simulated: each is an address of the loopback behind one sshd, and the engines of all are one process behind
the command `docker`, whose containers are entries of a list. Controller, sshd and engines share this machine: the CPU time
is that of the controller's processes alone; the wall time is mostly that of the hosts.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .measure import Figure, Ran, environment, machine, median, say
from .simulator.curves import Growth, picture
from .simulator.inventories import Hosts, write_hosts
from .simulator.simulation import simulated

SIZES = (4, 16, 64, 256)
"""Numbers of hosts; the command line may name others."""
GOAL = 0.025
"""Seconds of CPU for each host."""
BOUNDED = ("plan", "up, nothing to do", "status", "down, nothing there")
"""The verbs that have this goal."""
VERBS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("plan", ("plan",)),
    ("up from nothing", ("up",)),
    ("up, nothing to do", ("up",)),
    ("status", ("status",)),
    ("down", ("down", "--discard")),
    ("down, nothing there", ("down",)),
    ("check", ("check",)),
)
"""In this order: each finds what the one before has left."""
LIKE = {"plan": "ps", "up, nothing to do": "ps", "status": "ps", "up from nothing": "run", "down": "rm"}
"""The deploy of the peers that asks or does the same."""
ANSIBLE_MOST = 256
"""Hosts up to which Ansible is measured: 1,000 take it minutes for each verb."""

_INCLUDES = (
    "CPU time of the controller for each host: that of the command and its children, less that of the command with the "
    "fewest hosts; behind it the wall time of the whole command, and its memory. Peers: pyinfra's server.shell, 32 at "
    "once, and Ansible's raw, pipelining, 32 forks, no facts, with `docker ps`, `docker run` and `docker rm`"
)

Runs = dict[int, dict[str, list[Ran]]]
"""By the number of hosts, and by contender and verb."""


def figures(sizes: Sequence[int], rounds: int, peers: Path, drawn: Path | None = None) -> list[Figure]:
    """Measure every verb with every number of hosts; with `drawn`, also draw the curves there."""
    runs: Runs = {}
    with tempfile.TemporaryDirectory() as name, simulated(Path(name), max(sizes)) as simulation:
        env = environment(homes(name), Path(name) / "byte-code")
        for size in sorted(sizes):
            hosts = write_hosts(Path(name) / str(size), simulation, size)
            if size == min(sizes):
                _round(hosts, peers, env, size)  # compiles what there is
            runs[size] = {}
            for number in range(rounds if size < 1000 else 1):
                say(f"{size} simulated hosts, round {number + 1}")
                for what, ran in _round(hosts, peers, env, size).items():
                    runs[size].setdefault(what, []).append(ran)
    if drawn is not None:
        drawn.write_text(picture(_growths(runs), machine()))
    least = min(runs)
    return [_figure(verb, size, runs, least) for verb, _ in VERBS for size in runs if size > least]


def _round(hosts: Hosts, peers: Path, env: Mapping[str, str], size: int) -> dict[str, Ran]:
    """Run every verb of every contender once."""
    result = {f"tfprov {name}": controller(tfprov(words, hosts), env, hosts.peers) for name, words in VERBS}
    for deploy in ("ps", "run", "rm"):
        if (pyinfra := peers / "pyinfra").exists():
            command = [str(pyinfra), "-y", "--parallel", "32", "pyinfra_hosts.py", f"{deploy}.py"]
            result[f"pyinfra {deploy}"] = controller(command, env, hosts.peers)
        if (ansible := peers / "ansible-playbook").exists() and size <= ANSIBLE_MOST:
            command = [str(ansible), "-i", "ansible.json", f"{deploy}.yml"]
            result[f"ansible {deploy}"] = controller(command, env, hosts.peers)
    return result


def homes(directory: str) -> dict[str, str]:
    """Return the variables with which tfprov keeps its state in `directory`."""
    return {"XDG_STATE_HOME": f"{directory}/state", "XDG_CACHE_HOME": f"{directory}/cache", "HOME": directory}


def tfprov(words: Sequence[str], hosts: Hosts) -> list[str]:
    """Return the command of a verb."""
    return [sys.executable, "-m", "tfprov", *words, "-i", str(hosts.inventory)]


def controller(command: Sequence[str], env: Mapping[str, str], directory: Path, codes: Sequence[int] = (0,)) -> Ran:
    """Run a command that exits with one of `codes`; its CPU time is that of it and of the processes for which it waited."""
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
    if process.returncode not in codes:
        raise RuntimeError(f"{command}: exit code {process.returncode}:\n{output[-3000:]}")
    return Ran(end - begin, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024, output)


def _figure(verb: str, size: int, runs: Runs, least: int) -> Figure:
    """Return the line of a verb and a number of hosts."""
    ours, peers = f"tfprov {verb}", [f"{peer} {LIKE[verb]}" for peer in ("pyinfra", "ansible") if verb in LIKE]
    spent = each(runs, ours, size, least)
    is_bounded = verb in BOUNDED
    return Figure(
        f"{verb}, {size} hosts",
        _shown(runs, ours, size, least),
        "; ".join(f"{it.split()[0]} {_shown(runs, it, size, least)}" for it in peers if it in runs[size]),
        None,
        f"<= {GOAL * 1000:.0f} ms" if is_bounded else "",
        spent <= GOAL if is_bounded else None,
        includes=_INCLUDES,
    )


def each(runs: Runs, what: str, size: int, least: int) -> float:
    """Return the seconds of CPU for each host beyond those of the command with the fewest."""
    return (cpu(runs[size][what]) - cpu(runs[least][what])) / (size - least)


def _shown(runs: Runs, what: str, size: int, least: int) -> str:
    """Return CPU, wall time and memory: `7.4 ms, 0.6 s, 75 MB`."""
    measured = runs[size][what]
    peak = max(ran.peak for ran in measured) / 2**20
    return f"{each(runs, what, size, least) * 1000:.1f} ms, {median(measured):.1f} s, {peak:.0f} MB"


def _growths(runs: Runs) -> list[Growth]:
    """Return the curves of the verbs that look, and of those of the peers that ask the same."""
    least = min(runs)
    names = {f"tfprov {verb}": f"tfprov {verb}" for verb in BOUNDED[:3]} | {
        "pyinfra ps": "pyinfra",
        "ansible ps": "Ansible",
    }
    return [
        Growth(
            shown,
            tuple((size, median(runs[size][what])) for size in runs if what in runs[size]),
            tuple((size, 1000 * each(runs, what, size, least)) for size in runs if what in runs[size] and size > least),
        )
        for what, shown in names.items()
        if what in runs[least]
    ]


def cpu(runs: Sequence[Ran]) -> float:
    """Return the least CPU time: other work on the machine only adds to it."""
    return min(run.cpu for run in runs)
