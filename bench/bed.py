"""The hosts that everything is measured on: the lab of the tests, with what the peers need on a host."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import engine, testhosts
from tests.support.images import Images
from tests.support.lab_cluster import LabCluster
from tests.support.paths import cache_home
from tests.support.testhost import Host
from tests.support.testhosts import Lab

from .measure import environment, say

# Ansible's modules run on the host: community.docker's need Python, which is there, and this library.
_HOST = b"""
ARG BASE
FROM ${BASE}
RUN apt-get update -q && apt-get install -y -q --no-install-recommends python3-requests && rm -rf /var/lib/apt/lists/*
"""


class BenchImages(Images):
    """The images of the tests; hosts have what Ansible needs there, too."""

    def host(self) -> str:
        """Return the name of the host's image."""
        return self._build("bench-host", {"Dockerfile": (_HOST, 0o644)}, {"BASE": super().host()})


@dataclass(frozen=True)
class Bed:
    """Four hosts, node1 to node4; `directory` is for whatever is needed meanwhile."""

    lab: Lab
    images: Images
    directory: Path

    @property
    def hosts(self) -> list[Host]:
        """The four."""
        return self.lab.hosts

    @property
    def env(self) -> dict[str, str]:
        """The environment of everything that is measured: the controller's engine, and the key of the hosts."""
        return environment(self.lab.env, self.directory / "byte-code")

    def archive(self, image: str) -> Path:
        """Return what `docker save` writes of an image of the controller's engine."""
        return self.images.archive(image)

    def cluster(self, directory: Path, roles: Mapping[str, Sequence[Host]], settings: Mapping[str, Any]) -> LabCluster:
        """Return a cluster of its own directory, whose inventory has `settings` under `tfprov:`."""
        made = LabCluster(self.lab, directory)
        made.env = {**self.env, **{name: made.env[name] for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME")}}
        made.write(roles, settings)
        return made

    @property
    def ssh_flags(self) -> str:
        """What makes OpenSSH's client reach the hosts: this key, and no file of the user's."""
        options = {
            "IdentityFile": str(self.lab.bed.key),
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": str(self.lab.bed.known_hosts),
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "BatchMode": "yes",
        }
        return " ".join(["-F /dev/null", *(f"-o {name}={value}" for name, value in options.items())])


@contextmanager
def bed() -> Iterator[Bed]:
    """Yield the bed, and remove all of it afterwards; images stay in the engine's store for the next time."""
    with (
        contextmanager(engine.running)(cache_home()) as controller,
        tempfile.TemporaryDirectory(prefix="tfprov-bench-") as made,
    ):
        directory = Path(made)
        say("the hosts' images (some minutes, for the first time)")
        images = BenchImages(controller, directory)
        images.host()
        say("four hosts")
        with contextmanager(testhosts.running)(Lab(controller, images, directory / "home")) as lab:
            yield Bed(lab, images, directory)
