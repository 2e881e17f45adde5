"""An image to one host over 100 Mbit/s: tfprov with compressed and plain layers, beside `docker save` through SSH.

All begin with the image at the controller's side: tfprov's in its layout, without the compressed layers; the peers' in the
engine. What came to the host's sshd is counted by iptables there.
"""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tests.support.images import tar
from tests.support.testhost import Host

from .bed import Bed
from .measure import Figure, Ran, compared, in_turn, run, say, together

RATE = "100mbit"
_BYTES = re.compile(r"^ *\d+ +(\d+) .*dpt:22", re.MULTILINE)
_WAYS = {"compressed": "auto", "plain": "never"}
_PEERS = {
    "docker save | gzip -1 | ssh HOST docker load": "gzip -1 | ",
    "docker save | ssh HOST docker load": "",
}


def figures(bed: Bed, rounds: int, *, small: bool = False) -> list[Figure]:
    """Measure each way `rounds` times, in turn; `small` takes an image of some 30 MB in place of TensorFlow's."""
    say("slow link: the image")
    host = bed.hosts[0]
    image = _readable(bed) if small else bed.images.train()
    archive = bed.archive(image)
    host.run("iptables", "-I", "INPUT", "-p", "tcp", "--dport", "22")
    ways = [_Way(bed, name, mode, host, archive) for name, mode in _WAYS.items()]
    deliveries: dict[str, Callable[[], Ran]] = {way.name: way.deliver for way in ways}
    deliveries |= {name: partial(_load, bed, host, image, through) for name, through in _PEERS.items()}
    received: dict[str, int] = {}
    contenders = {name: partial(_counted, host, name, it, received) for name, it in deliveries.items()}
    say(f"slow link: {archive.stat().st_size / 10**6:.0f} MB over {RATE}/s, {rounds} rounds")
    with host.slow_link(RATE):
        times = in_turn(contenders, rounds, unheeded=0)
    return [*_figures(times, received)]


def _figures(times: Mapping[str, list[Ran]], received: Mapping[str, int]) -> list[Figure]:
    includes = (
        f"`tfprov image deliver` over {RATE}/s to a host that has no image, its layers compressed meanwhile "
        "(`compress: auto`) or plain (`never`); without the export, which the peers' `docker save` includes"
    )
    compressed, plain = (times[name] for name in _WAYS)
    result = [compared("slow link, compressed; plain", compressed, plain, 0.6, includes)]
    result += [compared(f"slow link, compressed; {name}", compressed, times[name], 1.0, includes) for name in _PEERS]
    shown = {name: f"{size / 10**6:.0f} MB" for name, size in received.items()}
    ours, theirs = shown["compressed"], ", ".join(f"{name}: {size}" for name, size in shown.items())
    return [*result, Figure("slow link, bytes to the host's sshd", ours, includes=f"with headers; {theirs}")]


class _Way:
    """A cluster of one host, whose image is in the layout."""

    def __init__(self, bed: Bed, name: str, mode: str, host: Host, archive: Path) -> None:
        self.name = name
        self.directory = bed.directory / f"slow-{name}"
        self.directory.mkdir()
        settings = {
            "cluster": f"slow{name}", "image": {"archive": str(archive)}, "deliver": {"compress": mode},
            "command": ["sh", "-c", "exec sleep 100000"], "ready": "start",
        }  # fmt: skip
        self.cluster = bed.cluster(self.directory, {"worker": [host]}, settings)
        run(self.cluster.command("image", "build"), self.cluster.env, self.directory)

    def deliver(self) -> Ran:
        """Deliver; compressed layers of an earlier round are not there."""
        layout = Path(self.cluster.env["XDG_CACHE_HOME"]) / "tfprov" / "images"
        shutil.rmtree(layout / "compressed", ignore_errors=True)
        shutil.rmtree(layout / "engines", ignore_errors=True)
        ran = run(self.cluster.command("image", "deliver"), self.cluster.env, self.directory)
        say(ran.output.strip().replace("\n", "; "))
        return ran


def _load(bed: Bed, host: Host, image: str, through: str) -> Ran:
    to = f"{bed.ssh_flags} {host.user}@{host.address}"
    pipe = f"docker save {image} | {through}ssh {to} docker load"
    return together([["bash", "-o", "pipefail", "-c", pipe]], bed.env)


def _counted(host: Host, name: str, deliver: Callable[[], Ran], received: dict[str, int]) -> Ran:
    host.forget_images()
    os.sync()
    host.run("iptables", "-Z", "INPUT")
    ran = deliver()
    match = _BYTES.search(host.run("iptables", "-nvxL", "INPUT"))
    assert match, "the rule was put in at the beginning"
    received[name] = int(match[1])
    say(f"{name}: {ran.seconds:.1f} s, CPU {ran.cpu:.1f} s, {received[name] / 10**6:.0f} MB")
    return ran


def _readable(bed: Bed) -> str:
    """Return the name of an image with a layer that shrinks to three fifths."""
    context = {"text": (os.urandom(15_000_000).hex().encode(), 0o644)}
    lines = f"FROM {bed.images.python()}\nCOPY text /data/\n".encode()
    archive = tar({**context, "Dockerfile": (lines, 0o644)})
    bed.images.engine.client.images.build(fileobj=archive, custom_context=True, tag="bench/readable:1", rm=True)
    return "bench/readable:1"
