"""The image of a training, on its way to the hosts: `tfprov` beside `docker save IMAGE | ssh HOST docker load`.

Both begin at the same controller's engine, which has the image, and end when the engine of every host has it. There are 1
or 3 hosts; three are served at once, as tfprov does by itself and the pipe with `&`.
"""

import os
import random
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.support.lab_cluster import training
from tests.support.paths import PROGRAMS
from tests.support.testhost import Host
from tests.support.testhosts import each
from tfprov.images.oci_layout import Layout

from . import export
from .bed import Bed
from .measure import Figure, Ran, compared, in_turn, median, run, say, seconds, together

_PEER = "docker save | ssh HOST docker load"
_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_SENT = re.compile(r"deliver image .*\(([\d.]+) (B|kB|MB|GB) sent\)")
_MEMORY = 200 * 10**6
"""Bytes that tfprov may use while it delivers."""
_EDIT = 3.0
"""Seconds from an edit until the tasks run again."""


class Delivery:
    """A cluster of one ps and two workers that sleep; `small` takes an image of a few MB in place of TensorFlow's."""

    def __init__(self, bed: Bed, *, small: bool) -> None:
        self.bed = bed
        self.directory = bed.directory / "delivery"
        self.directory.mkdir()
        self.hosts = bed.hosts[:3]
        self.image = bed.images.tiny() if small else bed.images.train()
        self.code = self.directory / "code"
        shutil.copytree(PROGRAMS, self.code, ignore=shutil.ignore_patterns("__pycache__"))
        settings = training(self.directory, bed.images.train_arguments() if not small else {})
        if small:
            settings["image"] = {"archive": str(bed.archive(self.image))}
        settings |= {"code": str(self.code), "command": ["sh", "-c", "exec sleep 100000"], "flags": {}}
        settings |= {"ready": "start"}
        self.cluster = bed.cluster(self.directory, {"ps": self.hosts[:1], "worker": self.hosts[1:]}, settings)
        self.edits = 0

    def tfprov(self, *arguments: str) -> Ran:
        """Run a verb."""
        return run(self.cluster.command(*arguments), self.cluster.env, self.directory)

    def build(self) -> Ran:
        """Build and export with tfprov, whose layout is empty; the engine has made every layer before."""
        shutil.rmtree(self._layout, ignore_errors=True)
        os.sync()
        return self.tfprov("image", "build")

    @property
    def _layout(self) -> Path:
        return Path(self.cluster.env["XDG_CACHE_HOME"]) / "tfprov" / "images"

    def deliver(self, hosts: Sequence[Host]) -> Ran:
        """Deliver with tfprov to hosts that have never seen the image."""
        self._forget()
        return self.tfprov("image", "deliver", "-l", ",".join(host.name for host in hosts))

    def load(self, image: str, hosts: Sequence[Host]) -> Ran:
        """Deliver with the peer, to all hosts at once."""
        pipes = [
            f"docker save {image} | ssh {self.bed.ssh_flags} {host.user}@{host.address} docker load" for host in hosts
        ]
        return together([["bash", "-o", "pipefail", "-c", pipe] for pipe in pipes], self.bed.env)

    def load_anew(self, hosts: Sequence[Host]) -> Ran:
        """Deliver with the peer to hosts that have never seen the image."""
        self._forget()
        return self.load(self.image, hosts)

    def _forget(self) -> None:
        each(Host.forget_images, self.hosts)
        os.sync()  # what the contender before has written must not weigh on this one

    def edit(self) -> None:
        """Change one file of the code, as an editor does."""
        self.edits += 1
        with (self.code / "linear.py").open("a") as file:
            file.write(f"# edit {self.edits}\n")
        os.sync()

    def up_after_edit(self) -> Ran:
        """Edit, and let tfprov bring it up: until the three tasks run with it."""
        self.edit()
        return self.tfprov("up")

    def load_after_edit(self) -> Ran:
        """Edit, build (which is not timed), and let the peer bring the image to hosts that have the one before."""
        self.edit()
        image = f"bench/edited:{self.edits}"
        dockerfile = self.code / "Dockerfile"
        dockerfile.write_text(f"FROM {self.image}\nCOPY . /code/\n")
        self.bed.images.engine.client.images.build(path=str(self.code), tag=image, rm=True)
        dockerfile.unlink()
        os.sync()
        return self.load(image, self.hosts)

    def layer(self) -> int:
        """Return the bytes of the code's layer as it is now: of the image that was made last."""
        layout = Layout(self._layout)
        made = [image for name, image in layout.images().items() if name.startswith("tfprov/")]
        last = max(made, key=lambda image: layout.blobs.path(image.layers[-1].digest).stat().st_mtime)
        return last.layers[-1].size


def figures(bed: Bed, rounds: int, *, small: bool = False) -> list[Figure]:
    """Measure first deliveries `rounds` times each, and as many edits and one more."""
    say("the image (some minutes, for the first time)")
    delivery = Delivery(bed, small=small)
    say("export: tfprov image build")
    builds = [delivery.build() for _ in range(rounds + 1)][1:]  # the first one compiles the byte code
    result = [
        Figure(
            "export into the layout, once for an image", seconds(builds),
            includes="`tfprov image build`: the engine's build, of which it has every layer; export; the code's layer",
        )
    ]  # fmt: skip
    peaks: list[int] = []
    for number in (1, 3):
        result += _first(delivery, delivery.hosts[:number], rounds, builds, peaks)
    result.append(_memory(peaks))
    result += export.figures(bed, rounds + 1, bed.images.bulky() if small else delivery.image)
    return result + _edits(delivery, rounds + 1)


def _first(
    delivery: Delivery, hosts: Sequence[Host], rounds: int, builds: Sequence[Ran], peaks: list[int]
) -> list[Figure]:
    say(f"first delivery to {len(hosts)}, {rounds} rounds")

    runs = {"tfprov": lambda: delivery.deliver(hosts), _PEER: lambda: delivery.load_anew(hosts)}
    times = in_turn(runs, rounds, unheeded=0)
    peaks += [ran.peak for ran in times["tfprov"]]
    where = "1 host" if len(hosts) == 1 else f"{len(hosts)} hosts at once"
    both = f"hosts that have no image; peer: `{_PEER}`, one pipe a host"
    with_export = [
        replace(ran, seconds=ran.seconds + build.seconds, cpu=ran.cpu + build.cpu)
        for ran, build in zip(times["tfprov"], builds, strict=True)
    ]
    return [
        compared(f"first delivery, {where}", times["tfprov"], times[_PEER], 0.85, f"`tfprov image deliver`; {both}"),
        compared(
            f"the same with the export, {where}", with_export, times[_PEER], None, "the line above and the export"
        ),
    ]


def _memory(peaks: Sequence[int]) -> Figure:
    peak = max(peaks)
    shown = f"{peak / 10**6:.0f} MB"
    includes = "the highest resident memory of the tfprov process in any of the first deliveries (VmHWM)"
    return Figure("memory while delivering", shown, goal="< 200 MB", met=peak < _MEMORY, includes=includes)


def _edits(delivery: Delivery, rounds: int) -> list[Figure]:
    say("the cluster, and the image for the peer, on 3 hosts")
    each(Host.forget_images, delivery.hosts)
    delivery.tfprov("up")
    delivery.load(delivery.image, delivery.hosts)
    say(f"after an edit, {rounds} rounds")
    times = in_turn({"tfprov": delivery.up_after_edit, _PEER: delivery.load_after_edit}, rounds, unheeded=0)
    small = _bytes(delivery, "bytes of an edit, the programs alone", times["tfprov"][-1].output, None)
    (delivery.code / "vocabulary").write_bytes(random.randbytes(500_000))
    delivery.up_after_edit()
    large = _bytes(delivery, "bytes of an edit, with 500 kB of data", delivery.up_after_edit().output, 1.1)
    delivery.tfprov("down", "--discard")
    goal = Figure(
        "after an edit, until tasks run", seconds(times["tfprov"]), goal=f"<= {_EDIT:.2f} s",
        met=median(times["tfprov"]) <= _EDIT,
        includes="one file of `code:` changed; `tfprov up`: layer, delivery, stop, start, until 1 ps and 2 workers run",
    )  # fmt: skip
    beside = f"`{_PEER}` to the 3 hosts, which have the lower layers; without its build, and without a restart"
    return [goal, compared("the same, beside the peer", times["tfprov"], times[_PEER], 0.1, beside), small, large]


def _bytes(delivery: Delivery, what: str, printed: str, most: float | None) -> Figure:
    sent = [float(size) * _UNITS[unit] for size, unit in _SENT.findall(printed)]
    assert len(sent) == len(delivery.hosts), printed
    layer = delivery.layer()
    ratio = max(sent) / layer
    goal, met = ("", None) if most is None else (f"<= {most:.2f}", ratio <= most)
    includes = "all that tfprov sent to a host (layer, configuration, manifest, headers) beside the code's layer itself"
    return Figure(
        what, f"{max(sent) / 1000:.1f} kB a host", f"layer {layer / 1000:.1f} kB", ratio, goal, met, includes=includes
    )
