"""A lab: test hosts on a network of their own, created once and reset for every test."""

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
from docker.types import IPAMConfig, IPAMPool

from tests.support.engine import Engine
from tests.support.images import Images
from tests.support.paths import cache_home
from tests.support.seeds import link_images, seed
from tests.support.testhost import PRIVILEGED, WITHOUT_SYS_RESOURCE, Bed, Host, new_key

SIZE = 4
"""Hosts of a lab, unless it is to have fewer."""
FIRST_ADDRESS = 11


class Lab:
    """`hosts` are node1 to node4; `env` has the variables with which a command knows the keys of all of them.

    `directory` becomes the home of a user: `.ssh` with a key, and a known_hosts with every host's. Labs of one engine have
    different numbers; hosts of the second are node11 to node14. All but the last have `image` from the start, if any.
    The hosts themselves are of `host_image`, or of the usual one, and as many as `size`.
    """

    def __init__(  # noqa: PLR0917
        self,
        engine: Engine,
        images: Images,
        directory: Path,
        number: int = 0,
        image: str | None = None,
        host_image: str | None = None,
        size: int = SIZE,
    ) -> None:
        self.engine, self.images, self.home, self.number, self.image = engine, images, directory, number, image
        self.size = size
        self.subnet = list(engine.network.subnet.subnets(new_prefix=24))[1 + number]
        self._ssh = directory / ".ssh"
        self._ssh.mkdir(mode=0o700, parents=True)
        private, public = new_key()
        key = self._ssh / "id_ed25519"
        key.touch(mode=0o600)
        key.write_bytes(private)
        self.bed = Bed(engine, host_image or images.host(), self._network(), key, public, self._ssh / "known_hosts")
        self._powers = PRIVILEGED
        self.hosts: list[Host] = []

    def _network(self) -> str:
        pool = IPAMPool(subnet=str(self.subnet), gateway=str(self.subnet[1]))
        options = {"com.docker.network.driver.mtu": str(self.engine.network.mtu)}
        name = f"lab{self.number or ''}"
        self.engine.client.networks.create(name, ipam=IPAMConfig(pool_configs=[pool]), options=options)
        return name

    @property
    def env(self) -> dict[str, str]:
        """Variables for a command: this home, and the tests' engine as the controller's."""
        return {"HOME": str(self.home), "DOCKER_HOST": self.engine.url}

    def start(self) -> None:
        """Make the hosts, all at once."""
        hosts = [self._new() for _ in range(self.size)]
        self._powers = working_powers(hosts[0])
        if self.image:
            ready = seed(cache_home() / "seeds", (self.bed.image, self.image), self._fill)
            for host in hosts[:-1]:
                host.seed = ready
        self._create(hosts)

    def add(self, disk: str | None = None) -> Host:
        """Make one more host, which goes with the test; with a `disk` of so many bytes, as `64m`, for its engine."""
        host = self._new(disk)
        self._create([host])
        return host

    def _new(self, disk: str | None = None) -> Host:
        number = len(self.hosts)
        host = Host(self.bed, f"node{self.number * 10 + number + 1}", str(self.subnet[FIRST_ADDRESS + number]), disk)
        self.hosts.append(host)
        self.bed.known_hosts.write_text("".join(f"{host.address} {host.public_key}\n" for host in self.hosts))
        return host

    def _create(self, hosts: list[Host]) -> None:
        each(lambda host: host.create(self._powers), hosts)
        each(Host.wait, hosts)
        each(Host.remember, hosts)

    def restore(self) -> None:
        """Make everything as it was at the start; of what tests put there, images alone stay."""
        for host in self.hosts[self.size :]:
            host.remove()
        del self.hosts[self.size :]
        each(lambda host: host.reset() if host.disturbed else host.clean(), self.hosts)
        self._create([host for host in self.hosts if host.disturbed])

    def load(self, image: str, hosts: Iterable[Host] | None = None) -> None:
        """Put an image of the tests' engine on `hosts`, by default on all, past everything that is tested."""
        archive = self.images.archive(image)
        each(lambda host: self._load(host, archive), self.hosts if hosts is None else hosts)

    def _load(self, host: Host, archive: Path) -> None:
        with archive.open("rb") as file:
            host.client.images.load(file)

    def _fill(self, directory: Path) -> None:
        """Make a seed of `image` by means of the first host, which is made anew afterwards."""
        assert self.image
        host = self.hosts[0]
        host.create(self._powers)
        host.wait()
        self.load(self.image, [host])
        host.service("engine", "stop")
        link_images(host.data_root, directory)

    def save(self, directory: Path) -> None:
        """Write down what is left to read after a failure: of each host its logs, of each container log and inspect."""
        directory.mkdir(parents=True, exist_ok=True)
        for host in self.hosts:
            (directory / f"{host.name}.log").write_text(host.logs())
            for container in host.client.containers.list(all=True) if host.engine_answers() else ():
                name = f"{host.name}.{container.name}"
                (directory / f"{name}.log").write_bytes(container.logs(timestamps=True))
                (directory / f"{name}.json").write_text(json.dumps(container.attrs, indent=2))
        (directory / "engine.log").write_bytes(self.engine.log.read_bytes())

    def close(self) -> None:
        """Remove all hosts and their network."""
        each(Host.remove, self.hosts)
        self.engine.client.networks.get(self.bed.network).remove()


def working_powers(host: Host) -> dict[str, Any]:
    """Try it: a machine that lacks a capability cannot hand it on, and says so when the container starts."""
    try:
        host.create(PRIVILEGED)
    except docker.errors.APIError as error:
        if "operation not permitted" not in str(error):
            raise
        return WITHOUT_SYS_RESOURCE
    return PRIVILEGED


def each(do: Callable[[Host], Any], hosts: Iterable[Host]) -> None:
    """Do it on all hosts at once, and raise the first error."""
    with ThreadPoolExecutor(SIZE) as pool:
        list(pool.map(do, hosts))


def running(lab: Lab) -> Iterator[Lab]:
    """Start a lab, and yield it; it is removed afterwards: for a fixture."""
    try:
        lab.start()
        yield lab
    finally:
        lab.close()
