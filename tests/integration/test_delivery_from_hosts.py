"""An image from host to host: what leaves the controller, hosts that others do not reach, relays that are killed."""

import re
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.images import Images
from tests.support.lab_cluster import LabCluster, open_lab_cluster
from tests.support.testhost import Host
from tests.support.testhosts import Lab, each
from tests.support.waiting import LONG, until
from tfprov.hosts.docker.reachability_probe import CHECK

_RULE = ("INPUT", "-p", "tcp", "--dport", "22")
_BYTES = re.compile(r"^ *\d+ +(\d+) .*dpt:22", re.MULTILINE)
SIZE = 28_000_000
"""Bytes of the image, about; its relays have some 9 MB."""


@pytest.fixture
def cluster(lab: Lab, images: Images, tmp_path: Path) -> Iterator[LabCluster]:
    """A cluster on four hosts that have never seen an image; the controller has it."""
    each(Host.forget_images, lab.hosts)
    for made in open_lab_cluster(lab, tmp_path):
        settings: dict[str, Any] = {
            "image": {"archive": str(images.archive(images.bulky()))},
            "deliver": {"from_hosts": "auto", "compress": "never"},
            "command": ["sh", "-c", "exec sleep 1000"],
            "ready": "start",
        }
        made.write({"ps": lab.hosts[:1], "worker": lab.hosts[1:]}, settings)
        made("image", "build")
        yield made
    each(Host.forget_images, lab.hosts)


def relays(hosts: list[Host]) -> list[str]:
    """Return the containers of relays and their images: nothing of them outlives the run."""
    label: dict[str, Any] = {"label": f"{CHECK}=lab"}
    listed = [host.client.containers.list(all=True, filters=label, ignore_removed=True) for host in hosts]
    return [str(it.name) for its in listed for it in its] + [
        tag for host in hosts for image in host.client.images.list() for tag in image.tags if "relay" in tag
    ]


def _no_container_runs(hosts: list[Host]) -> bool:
    return not any(host.client.containers.list(ignore_removed=True) for host in hosts)


def delivered(hosts: list[Host]) -> set[str]:
    """Return the ids of the cluster's image on the hosts; an empty one for a host without it."""
    images = [host.client.images.list("tfprov/lab") for host in hosts]
    return {str(its[0].id) if its else "" for its in images}


def from_controller(host: Host) -> int:
    """Return the bytes that came to its sshd since the rule was put in."""
    match = _BYTES.search(host.run("iptables", "-nvxL", "INPUT"))
    assert match
    return int(match[1])


def test_layers_leave_the_controller_once_and_a_host_behind_a_firewall_is_served_by_it(
    lab: Lab, cluster: LabCluster
) -> None:
    hosts = lab.hosts
    for host in hosts:
        host.disturbed = True
        host.run("iptables", "-I", *_RULE)
    closed = hosts[3]  # it lets nobody in, and gets nothing from others
    closed.run("iptables", "-A", "INPUT", "-p", "tcp", "-i", "eth0", "!", "--dport", "22", "-j", "REJECT")
    closed.run("iptables", "-A", "OUTPUT", "-p", "tcp", "-o", "eth0", "--dport", "1024:", "--syn", "-j", "REJECT")
    printed = cluster("image", "deliver")
    assert len(delivered(hosts)) == 1
    assert "" not in delivered(hosts)
    received = [from_controller(host) for host in hosts]
    assert SIZE < received[3] < 1.6 * SIZE
    assert SIZE < sum(received[:3]) < SIZE + 3 * 12_000_000, "once for the three, and their relays"
    # Which of the two notes it is depends on who asks first for a layer.
    pair = "(node4: cannot get layers from node[123]|node[123]: cannot get layers from node4)"
    assert re.search(rf"^{pair} \(.*\); trying another way$", printed, re.MULTILINE), printed
    assert re.search(r"^node[123]: .*[\d.]+ MB from node[123], .* from this machine$", printed, re.MULTILINE)
    assert printed.count("ok       deliver image") == 4
    assert relays(hosts) == []


def test_relays_that_are_killed_cost_no_delivery_and_end_with_the_controller(lab: Lab, cluster: LabCluster) -> None:
    def running(host: Host) -> list[Any]:
        label: dict[str, Any] = {"label": f"{CHECK}=lab"}
        found: list[Any] = host.client.containers.list(filters=label, ignore_removed=True)
        return found

    def kill_first(host: Host) -> None:
        [relay] = until(partial(running, host), f"the relay of {host.name}", of=delivery)
        relay.kill()

    delivery = cluster.start("image", "deliver")
    with ThreadPoolExecutor() as pool:
        list(pool.map(kill_first, lab.hosts[:2]))
    assert delivery.wait(LONG) == 0
    assert len(delivered(lab.hosts)) == 1
    assert "" not in delivered(lab.hosts)
    assert relays(lab.hosts) == []

    each(Host.forget_images, lab.hosts)
    delivery = cluster.start("image", "deliver", fresh=True)
    until(lambda: running(lab.hosts[0]), "a relay", of=delivery)
    delivery.send_signal(signal.SIGKILL)
    delivery.wait()
    # Each removes itself at its end, at times between the list and the look at it that the SDK takes.
    ended = partial(_no_container_runs, lab.hosts)
    until(ended, "the end of the relays")
    cluster("image", "deliver")
    assert relays(lab.hosts) == [], "also what the killed one created and did not start, and its images"
    assert "" not in delivered(lab.hosts)
