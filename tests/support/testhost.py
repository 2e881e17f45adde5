"""A test host: a container with sshd and a Docker engine, and fault injection."""

import contextlib
import hashlib
import io
import os
import stat
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import docker
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from docker.errors import APIError
from docker.models.containers import Container
from docker.types import Mount

from tests.support.engine import Engine, answers
from tests.support.images import tar
from tests.support.seeds import link_images
from tests.support.waiting import until
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker.engine import Engine as HostEngine

PRIVILEGED: dict[str, Any] = {"Privileged": True}
"""What a container needs to run containers itself, in the words of the engine's API."""

WITHOUT_SYS_RESOURCE: dict[str, Any] = {
    "CapAdd": ["ALL"],
    "CapDrop": ["SYS_RESOURCE"],
    "SecurityOpt": ["seccomp=unconfined"],
    "MaskedPaths": [],
    "ReadonlyPaths": [],
    "DeviceCgroupRules": ["a *:* rwm"],
    "CgroupnsMode": "host",
    "Binds": ["/sys/fs/cgroup:/sys/fs/cgroup:rw"],
}
"""The same where this machine has no CAP_SYS_RESOURCE, which `Privileged` would hand on."""

LISTENS = "grep -q ':0016 00000000:0000 0A ' /proc/net/tcp"
"""Whether sshd listens, asked without a connection: for each one sshd starts a process, which ends some time later."""

RESET = """
set -eu
rules=$1 key=$2 authorized=$3
shift 3
for path; do [ ! -e "$path.hidden" ] || mv "$path.hidden" "$path"; done
for process in /proc/[0-9]*; do
    pid=${process#/proc/}
    program=$(readlink "$process/exe" 2>/dev/null) || continue
    case $program in */docker-init | */dockerd | */containerd) continue ;; esac
    [ "$pid" != $$ ] && [ "$(tr '\\0' ' ' <"$process/cmdline" 2>/dev/null)" != 'sleep infinity ' ] || continue
    kill -9 "$pid" 2>/dev/null || true
done
for table in raw mangle; do iptables -w -t "$table" -F; done
printf '%s\n' "$rules" | iptables-restore
find /tmp /usr/local/bin -mindepth 1 -delete
cd /etc/ssh
rm -f sshd_config.d/00-test.conf ssh_host_* authorized_keys /home/*/.sudo_as_admin_successful
(umask 177 && printf %s "$key" >ssh_host_ed25519_key)
printf %s "$authorized" >authorized_keys
while LISTENS; do sleep 0.02; done
host-service sshd start
until LISTENS; do sleep 0.05; done
""".replace("LISTENS", LISTENS)
"""Takes the rules of iptables as they were, the keys, and the paths of programs that were hidden. What runs is ended, but
for the engine and what the host booted with. sudo leaves a mark in the home of its user. The port of the sshd
that was killed is free a moment later; a new one listens at the end."""

UNSTABLE = ("/run/", "/var/log/", "/var/lib/docker/", "/tmp/containerd.")
"""Directories that change by themselves, and where containerd writes its stacks when it was too busy to answer dockerd."""
Entry = tuple[int, int, int, bytes]
"""Of a disk: kind and mode, owner, group, and content or target."""


@dataclass(frozen=True)
class Bed:
    """What all hosts of a lab share; `known_hosts` and the private `key` are files, `network` is a name."""

    engine: Engine
    image: str
    network: str
    key: Path
    public_key: str
    known_hosts: Path


@dataclass
class Host:
    """One test host; `disk` is the size of its engine's disk, as `64m`, when it should be small.

    Its engine begins with the images of `seed`, a data root that is only read.

    Whatever changes the machine itself sets `disturbed`: the lab resets such a host before the next test, or makes it
    anew where a reset does not know all that was changed, or the host was switched off or its engine ended.
    """

    bed: Bed
    name: str
    address: str
    disk: str | None = None
    seed: Path | None = None
    port: int = 22
    user: str = "trainer"
    disturbed: bool = False
    lost: bool = False
    _container: Container | None = None
    _client: docker.DockerClient | None = None

    def __post_init__(self) -> None:
        self.key, self.public_key = new_key()
        self._hidden: list[str] = []
        self._rules = ""
        self._written: dict[str, Entry] = {}
        self.outside = self.bed.engine.run / self.name

    @property
    def client(self) -> docker.DockerClient:
        """The SDK's client for this host's engine, through a socket that neither sshd nor a firewall stands before."""
        if self._client is None:
            self._client = docker.DockerClient(base_url=f"unix://{self.outside}/docker.sock", timeout=300)
        return self._client

    def variables(self, user: str | None = None) -> dict[str, Any]:
        """Return what an inventory says of this host. Users: trainer, plain (no Docker), admin (sudo), root."""
        return {
            "ansible_host": self.address,
            "ansible_port": self.port,
            "ansible_user": user or self.user,
            "ansible_ssh_private_key_file": str(self.bed.key),
        }

    def ssh(self, *words: str, user: str | None = None, patience: int = 60) -> "subprocess.CompletedProcess[str]":
        """Run a command over OpenSSH's client, which knows this host's key and no other.

        A connection may take `patience` seconds: few where nobody is to answer.
        """
        options = {"UserKnownHostsFile": self.bed.known_hosts, "StrictHostKeyChecking": "yes"}
        options |= {"ConnectTimeout": patience}
        options |= {"GlobalKnownHostsFile": "/dev/null", "BatchMode": "yes", "IdentitiesOnly": "yes"}
        flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        target = ["-p", str(self.port), "-i", str(self.bed.key), f"{user or self.user}@{self.address}"]
        # Without a configuration of the user's own.
        command = ["ssh", "-F", "/dev/null", *flags, *target, *words]
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)

    def run(self, *argv: str) -> str:
        """Run a command as root on the host, past sshd, and return what it printed."""
        code, output = self._exec(*argv)
        assert code == 0, f"{self.name}: {' '.join(argv)}: exit code {code}: {output}"
        return output

    def put(self, directory: str, files: Mapping[str, bytes]) -> None:
        """Put files into a directory of the host, for everybody to read."""
        self.run("mkdir", "-p", directory)
        self._made.put_archive(directory, tar({name: (content, 0o644) for name, content in files.items()}))

    def _exec(self, *argv: str) -> tuple[int, str]:
        return run_in(self.bed.engine.socket, str(self._made.id), *argv)

    def run_in(self, container: str, *argv: str) -> tuple[int, str]:
        """Run a program in a container of this host's engine; return its exit code and output."""
        return run_in(self.outside / "docker.sock", container, *argv)

    @property
    def _made(self) -> Container:
        assert self._container, f"{self.name} was not made"
        return self._container

    def create(self, powers: dict[str, Any]) -> None:
        """Make the host and switch it on; `wait` tells when it is up."""
        self.remove()
        self.outside.mkdir(exist_ok=True)
        api = self.bed.engine.client.api
        host_config = api.create_host_config(init=True, network_mode=self.bed.network, mounts=self._mounts())
        endpoints = {self.bed.network: api.create_endpoint_config(ipv4_address=self.address)}
        created = api.create_container(
            self.bed.image, name=self.name, hostname=self.name, host_config={**host_config, **powers},
            networking_config={"EndpointsConfig": endpoints},
            environment={"MTU": str(self.bed.engine.network.mtu), "CGROUPS": "shared" if "Binds" in powers else "own"},
        )  # fmt: skip
        self._container = self.bed.engine.client.containers.get(created["Id"])
        self._put_keys()
        if self.seed:
            link_images(self.seed, self.data_root)
        self._container.start()
        self.disturbed = self.lost = False
        self._hidden, self._rules, self._written = [], "", {}

    def _put_keys(self) -> None:
        keys = {
            "ssh_host_ed25519_key": (self.key, 0o600),
            "authorized_keys": (self.bed.public_key.encode(), 0o644),
        }
        self._made.put_archive("/etc/ssh", tar(keys))

    @property
    def data_root(self) -> Path:
        """The directory of this machine that is the data root of the host's engine, unless that has a `disk` of its own."""
        return next(Path(each["Source"]) for each in self._made.attrs["Mounts"] if each["Type"] == "volume")

    @property
    def id(self) -> str:
        """Of the container that the host is; another one after it was made anew."""
        return str(self._made.id)

    def remember(self) -> None:
        """Note what a host is like that is new and up: `reset` brings it back to that."""
        self._rules, self._written = self.run("iptables-save"), self._on_disk()

    def reset(self) -> bool:
        """Undo what tests do to a machine; say whether it is as new now, but for the images on it."""
        self._made.reload()
        if self._made.status == "paused":
            self._made.unpause()
        if self.lost or not self.engine_answers():
            return False
        self.clean()
        keys = self.key.decode(), self.bed.public_key
        self.run("sh", "-c", RESET, "reset", self._rules, *keys, *self._hidden)
        self.disturbed = bool(self.changed_paths())
        return not self.disturbed

    def changed_paths(self) -> list[str]:
        """Return the paths of the machine's own disk that are not what they were when it was new."""
        now, before = self._on_disk(), self._written
        return sorted(path for path in now.keys() | before.keys() if now.get(path) != before.get(path))

    def _on_disk(self) -> dict[str, Entry]:
        """Return what the machine's own disk has in place of what its image has; a path that was removed is a device."""
        layers = self._made.attrs["GraphDriver"]["Data"]
        written, image = Path(layers["UpperDir"]), [Path(layer) for layer in layers["LowerDir"].split(":")]
        entries = {}
        for directory, folders, files in os.walk(written):  # which passes over a directory that is removed meanwhile
            top = Path(directory).relative_to(written)
            for names in (folders, files):  # a folder that is not in the list is not gone into
                names[:] = [name for name in names if not f"/{top / name}/".startswith(UNSTABLE)]
            for name in (str(top / each) for each in (*folders, *files)):
                below = next((layer / name for layer in image if os.path.lexists(layer / name)), None)
                entry = _entry(written / name)
                # A directory is written with its first entry, and a file that was moved forth and back is the image's.
                if below is None or entry != _entry(below):
                    entries[name] = entry
        return entries

    def _mounts(self) -> list[Mount]:
        mounts = [Mount("/run/outside", str(self.outside), type="bind")]
        if self.disk:
            mounts.append(Mount("/var/lib/docker", None, type="tmpfs", tmpfs_size=self.disk))
        return mounts

    def remove(self) -> None:
        """Remove the host with everything on it."""
        if self._client:
            self._client.close()
            self._client = None
        if self._container:
            self._container.remove(force=True, v=True)
            self._container = None

    def wait(self, seconds: float = 300) -> None:
        """Wait until sshd and the engine answer."""
        deadline = time.monotonic() + seconds
        while not (self.engine_answers() and self._sshd_answers()):  # the one that is cheaper to ask first
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} is not up after {seconds} s:\n{self.logs()}")
            time.sleep(0.1)

    def engine_answers(self) -> bool:
        """Whether the host's engine runs."""
        return answers(self.outside / "docker.sock")

    def _sshd_answers(self) -> bool:
        return self._exec("sh", "-c", LISTENS)[0] == 0

    def clean(self) -> None:
        """Remove what tests have put on the host's engine: containers, volumes and networks, and with them no image."""
        until(self._is_clean, f"{self.name} has no containers and no volumes")
        self.client.networks.prune()

    def _is_clean(self) -> bool:
        """Remove containers and volumes; say whether there were none: a killed verb's last request may still be at work."""
        containers, volumes = self.client.containers.list(all=True, ignore_removed=True), self.client.volumes.list()
        for container in containers:
            _unless_in_use(container.remove, force=True, v=True)
        for volume in volumes:
            _unless_in_use(volume.remove, force=True)
        return not containers and not volumes

    def forget_images(self) -> None:
        """Remove all images: the host has never seen one."""
        self.clean()
        until(self._is_without_images, f"{self.name} has no images")
        self.client.images.prune({"dangling": False})
        self.client.api.prune_builds(all=True)  # BuildKit keeps the layers of what it has built

    def _is_without_images(self) -> bool:
        """Remove the names of all images; say whether there were none, as `_is_clean`. One request lists all of them."""
        tags = (image["RepoTags"] or () for image in self.client.api.images())
        names = [name for each in tags for name in each if name != "<none>:<none>"]
        for name in names:
            _unless_in_use(self.client.images.remove, name, force=True)
        return not names

    def stop(self) -> None:
        """Switch it off at once, as a power cut does."""
        self.disturbed = self.lost = True
        self._made.kill()
        self._made.wait()

    def start(self) -> None:
        """Switch it on again, with its disk as it was."""
        self._made.start()
        self.wait()

    def restart(self) -> None:
        """Power cut and boot."""
        self.stop()
        self.start()

    def move(self, address: str) -> None:
        """Power cut, and boot at another address."""
        self.stop()
        network = self.bed.engine.client.networks.get(self.bed.network)
        network.disconnect(self._made)
        network.connect(self._made, ipv4_address=address)
        self.address = address
        self.start()

    @contextlib.contextmanager
    def slowed(self, rate: str) -> Iterator[None]:
        """Let it send no faster than `rate`, such as `1mbit`, meanwhile."""
        self.disturbed = True
        self.run("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "16kb", "latency", "400ms")
        try:
            yield
        finally:
            self.run("tc", "qdisc", "del", "dev", "eth0", "root")

    @contextlib.contextmanager
    def slow_link(self, rate: str) -> Iterator[None]:
        """Let it receive no faster than `rate` meanwhile: its end of the network outside of it sends no faster."""
        index = self.run("cat", "/sys/class/net/eth0/iflink").strip()
        enter = self.bed.engine.network.enter
        links = subprocess.run([*enter, "ip", "-o", "link"], check=True, capture_output=True, text=True).stdout
        device = next(line.split()[1].partition("@")[0] for line in links.splitlines() if line.startswith(f"{index}:"))
        queue = [*enter, "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", rate]
        subprocess.run([*queue, "burst", "64kb", "latency", "100ms"], check=True)
        try:
            yield
        finally:
            subprocess.run([*enter, "tc", "qdisc", "del", "dev", device, "root"], check=True)

    def pause(self) -> None:
        """Freeze all of it: connections stay open and nothing answers."""
        self.disturbed = True
        until(self._freezes, f"{self.name} to freeze")

    def _freezes(self) -> bool:
        """Freeze it; return False where runc gave up, which thaws it again.

        With cgroup v1, freezing is a race with the processes that the host starts at that moment: after a thousand
        tries runc leaves the next try to its caller.
        """
        try:
            self._made.pause()
        except APIError as error:
            if "unable to freeze" not in str(error):
                raise
            return False
        return True

    def unpause(self) -> None:
        """Let it go on."""
        self._made.unpause()

    def service(self, name: str, verb: str) -> None:
        """`sshd` or `engine`; `start`, `stop`, or `kill`, which leaves the engine's containers running."""
        self.disturbed = True
        self.lost |= name == "engine"
        self.run("host-service", name, verb)
        if name == "sshd":  # which waits neither for its end nor until it listens
            until(lambda: self._sshd_answers() == (verb == "start"), f"{self.name}: sshd after its {verb}")

    def sshd_option(self, line: str) -> None:
        """Restart sshd with a line of sshd_config before all others, such as `AllowTcpForwarding no`."""
        self.service("sshd", "stop")
        self.run("sh", "-c", 'echo "$0" >/etc/ssh/sshd_config.d/00-test.conf', line)
        self.service("sshd", "start")

    def change_key(self) -> None:
        """Give it another host key than known_hosts has, as a machine that was installed again."""
        self.service("sshd", "stop")
        self.run(
            "sh", "-c", "rm /etc/ssh/ssh_host_* && ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key"
        )
        self.service("sshd", "start")

    def hide_docker(self) -> None:
        """Take the docker command and the way to the engine away; the engine goes on."""
        self.hide("/usr/bin/docker")
        self.hide("/run/docker.sock")

    def hide(self, path: str) -> None:
        """Take a program or a socket away."""
        self.disturbed = True
        self._hidden.append(path)
        self.run("mv", path, f"{path}.hidden")

    def drop_from(self, other: "Host", port: int) -> None:
        """Lose what `other` sends to a port of this host, also where a container is published: a firewall between two."""
        self.disturbed = True
        way = ["-s", other.address, "-p", "tcp", "--dport", str(port)]
        self.run("iptables", "-w", "-t", "raw", "-I", "PREROUTING", *way, "-j", "DROP")

    def listen(self, port: int, address: str = "0.0.0.0") -> None:
        """Have a program of the host itself listen on a port, until the end of the test."""
        self.disturbed = True
        self.run("sh", "-c", 'nc -lk "$0" "$1" >/dev/null 2>&1 &', address, str(port))
        until(lambda: self._exec("nc", "-z", "-w", "1", self.address, str(port))[0] == 0, f"{self.name}: port {port}")

    def drop(self, port: int = 22) -> None:
        """Lose every packet to `port`, also of open connections, without a reset."""
        self.disturbed = True
        self.run("iptables", "-w", "-I", "INPUT", "-p", "tcp", "--dport", str(port), "-j", "DROP")

    def accept(self, port: int = 22) -> None:
        """End what `drop` began."""
        self.run("iptables", "-w", "-D", "INPUT", "-p", "tcp", "--dport", str(port), "-j", "DROP")

    def logs(self) -> str:
        """Return what the host itself says: boot, sshd, engine; also when it is switched off."""
        self._made.reload()
        parts = [f"== {self.name}: {self._made.attrs['State']['Status']}\n", str(self._made.logs(), "utf-8", "replace")]
        for path in ("/var/log/sshd.log", "/var/log/dockerd.log"):
            with contextlib.suppress(docker.errors.NotFound):
                parts.append(f"== {path}\n{self._read(path)}")
        return "".join(parts)

    def _read(self, path: str) -> str:
        chunks, _ = self._made.get_archive(path)
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            file = archive.extractfile(Path(path).name)
            assert file
            return file.read().decode(errors="replace")


def run_in(socket: Path, container: str, *argv: str) -> tuple[int, str]:
    """Run a program in a container of the engine at `socket`; return its exit code and output."""
    output = bytearray()
    with contextlib.closing(HostEngine.local("test", socket)) as engine:
        code = docker_exec.run(engine, container, argv, lambda _, data: output.extend(data))
    return code, output.decode(errors="replace")


def _unless_in_use(remove: Callable[..., object], *what: str, **how: bool) -> None:
    """Remove something that may have gone by itself, or may still be in use for a moment."""
    try:
        remove(*what, **how)
    except APIError as error:
        if error.status_code not in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
            raise


def _entry(path: Path) -> Entry:
    status = path.lstat()
    content = os.fsencode(path.readlink()) if path.is_symlink() else b""
    if stat.S_ISREG(status.st_mode):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
    return status.st_mode, status.st_uid, status.st_gid, content


def new_key() -> tuple[bytes, str]:
    """Return a new key for SSH: the private one as a file holds it, and the public one as one line."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return private, key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
