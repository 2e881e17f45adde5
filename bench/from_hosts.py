"""An image to many hosts, from host to host beside all from the controller: what leaves the controller, wall and CPU time.

The hosts have engines of their own. Its layers are random bytes upon a small image with Python, and do not compress.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence

from tests.support.images import tar
from tests.support.testhost import Host
from tests.support.testhosts import each

from .bed import Bed
from .measure import Figure, Ran, in_turn, median, run, say, seconds

HOSTS = 8
LAYERS = 4
LINK = "200mbit"
"""The link of a controller in an office. Without a limit, the two cores of this machine are the limit."""
_BYTES = re.compile(r"^ *\d+ +(\d+) .*dpt:22", re.MULTILINE)


def figures(bed: Bed, rounds: int, megabytes: int = 500) -> list[Figure]:
    """Measure first deliveries to HOSTS hosts, both ways in turn: as the machine is, and through a slow link."""
    say(f"{HOSTS} hosts, and an image of {megabytes} MB")
    for _ in range(HOSTS - len(bed.hosts)):
        bed.lab.add()
    hosts = bed.hosts[:HOSTS]
    each(lambda host: host.run("iptables", "-I", "INPUT", "-p", "tcp", "--dport", "22"), hosts)
    size = megabytes * 10**6
    image = _image(bed, size)
    ways = {name: _Cluster(bed, name, hosts, image) for name in ("never", "auto")}
    bed.images.engine.client.images.remove(image, force=True)
    result = _compared(ways, size, rounds, "")
    device = bed.lab.engine.network.name
    limit = ["tbf", "rate", LINK, "burst", "1mb", "latency", "100ms"]
    subprocess.run(["tc", "qdisc", "replace", "dev", device, "root", *limit], check=True)
    try:
        return result + _compared(ways, size, rounds, f", {LINK}/s from the controller")
    finally:
        subprocess.run(["tc", "qdisc", "del", "dev", device, "root"], check=True)


def _compared(ways: Mapping[str, "_Cluster"], size: int, rounds: int, link: str) -> list[Figure]:
    times = in_turn({name: way.deliver for name, way in ways.items()}, rounds, unheeded=0)
    sent = {name: sorted(way.sent[-rounds:])[rounds // 2] / size for name, way in ways.items()}
    auto, never = times["auto"], times["never"]
    cpu = sum(ran.cpu for ran in auto) / sum(ran.cpu for ran in never)
    ratio = median(auto) / median(never)
    what = f"{size // 10**6} MB to {HOSTS} hosts{link}"
    includes = "`tfprov image deliver` to hosts that have no image; peer: the same, with `from_hosts: never`"
    return [
        Figure(
            f"bytes from the controller, {what}", f"{sent['auto']:.2f} x the image", f"{sent['never']:.2f} x the image",
            sent["auto"] / sent["never"], "<= 2.2 x", sent["auto"] <= 2.2, includes=includes,
        ),
        Figure(
            f"from host to host, {what}", seconds(auto), seconds(never), ratio, "<= 0.5, or CPU <= 0.7",
            ratio <= 0.5 or cpu <= 0.7, cpu, includes,
        ),
    ]  # fmt: skip


def _image(bed: Bed, size: int) -> str:
    name = f"bench/random:{size}"
    files: Mapping[str, tuple[bytes, int]] = {str(it): (os.urandom(size // LAYERS), 0o644) for it in range(LAYERS)}
    lines = [f"FROM {bed.images.python()}", *(f"COPY {it} /data/{it}" for it in files)]
    context = tar({**files, "Dockerfile": ("\n".join(lines).encode(), 0o644)})
    bed.images.engine.client.images.build(fileobj=context, custom_context=True, tag=name, rm=True)
    return name


class _Cluster:
    """A cluster of one ps and workers that sleep."""

    def __init__(self, bed: Bed, way: str, hosts: Sequence[Host], image: str) -> None:
        self.directory = bed.directory / way
        self.directory.mkdir()
        settings = {
            "cluster": way, "image": {"archive": str(bed.archive(image))}, "deliver": {"from_hosts": way},
            "command": ["sh", "-c", "exec sleep 100000"], "ready": "start",
        }  # fmt: skip
        self.cluster = bed.cluster(self.directory, {"ps": hosts[:1], "worker": hosts[1:]}, settings)
        self.hosts = hosts
        self.sent: list[int] = []
        run(self.cluster.command("image", "build"), self.cluster.env, self.directory)

    def deliver(self) -> Ran:
        """Deliver to hosts that have never seen the image."""
        each(Host.forget_images, self.hosts)
        os.sync()
        each(lambda host: host.run("iptables", "-Z", "INPUT"), self.hosts)
        ran = run(self.cluster.command("image", "deliver"), self.cluster.env, self.directory)
        self.sent.append(sum(_received(host) for host in self.hosts))
        say(
            f"{self.directory.name}: {ran.seconds:.1f} s, CPU {ran.cpu:.1f} s, {self.sent[-1] / 10**6:.0f} MB from here"
        )
        return ran


def _received(host: Host) -> int:
    """Return the bytes that came to the host's sshd."""
    match = _BYTES.search(host.run("iptables", "-nvxL", "INPUT"))
    assert match, "the rule was put in at the beginning"
    return int(match[1])
