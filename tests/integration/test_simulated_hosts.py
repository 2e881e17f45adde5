"""Verbs on the simulated hosts of `bench scale`: whole hosts, slow links, and hosts with a fault."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.simulator.faults import Fault
from bench.simulator.inventories import write_hosts
from bench.simulator.simulation import simulated
from tests.support.command_line import CommandLine
from tests.support.ports import free_port
from tests.support.sshd import program
from tfprov.hosts import bounds

pytestmark = pytest.mark.skipif(program() is None, reason="needs openssh-server")

HOSTS = 6
ERRORS = {
    Fault.NO_ENGINE: "its Docker engine does not run; start it there: `systemctl start docker`",
    Fault.ERROR_500: "no space left on its disk: write /var/lib/docker/tmp: no space left on device; free some, for "
    "example with `docker system prune`",
    Fault.HANGS: "its Docker engine did not answer in time; look at its load and its disk",
}
QUICK = {"h1": Fault.NO_ENGINE, "h3": Fault.ERROR_500, "h4": Fault.NO_SSHD}


@contextmanager
def running(directory: Path, faults: Mapping[str, Fault], latency: float = 0.0) -> Iterator[CommandLine]:
    with simulated(directory / "s", HOSTS, latency, faults) as simulation:
        hosts = write_hosts(directory / "hosts", simulation, HOSTS, free_port())
        env = {"HOME": str(directory), "XDG_STATE_HOME": str(directory / "state"), "PATH": "/usr/bin:/bin"}
        yield CommandLine(hosts.inventory.parent, env)


def errors(printed: str) -> dict[str, str]:
    """Return the line of each host."""
    lines = [line.removeprefix("error: ") for line in printed.splitlines() if line.startswith("error: ")]
    return {host: text for host, _, text in (line.partition(": ") for line in lines)}


def test_a_fault_of_a_host_is_one_line_with_its_name_and_the_others_are_shown(tmp_path: Path) -> None:
    with running(tmp_path, QUICK) as tfprov:
        planned, shown = tfprov.run("plan"), tfprov.run("status")
    for done in (planned, shown):
        assert done.returncode == 4
        lines = errors(done.stdout)
        assert list(lines) == list(QUICK)
        assert (lines["h1"], lines["h3"]) == (ERRORS[Fault.NO_ENGINE], ERRORS[Fault.ERROR_500])
        assert lines["h4"].endswith("refused the connection; start sshd there, or correct `ansible_port`")
    states = [line.split()[1] for line in shown.stdout.splitlines() if line.startswith(("ps/", "worker/"))]
    assert states == ["absent", "unreachable", "absent", "unreachable", "unreachable", "absent"]


def test_check_tries_ports_that_really_listen_over_a_slow_link(tmp_path: Path) -> None:
    with running(tmp_path, {}, latency=0.02) as tfprov:
        tfprov("up")
        tfprov("down", "--discard")
        printed = tfprov("check")
    assert "6 hosts looked at, 36 of 36 addresses reached: nothing is in the way" in printed


@pytest.mark.matrix
def test_a_hanging_engine_is_named_after_its_limit(tmp_path: Path) -> None:
    with running(tmp_path, {**QUICK, "h5": Fault.HANGS}) as tfprov:
        done = tfprov.run("plan", timeout=2 * (bounds.QUERY_TIMEOUT + bounds.PING_TIMEOUT))
    lines = errors(done.stdout)
    assert (done.returncode, list(lines)) == (4, ["h1", "h3", "h4", "h5"])
    assert lines["h5"] == ERRORS[Fault.HANGS]
