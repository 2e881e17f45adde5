"""What a gather costs beside `scp`: from a container of an engine behind a real sshd on the loopback.

Controller, sshd and engine share this machine. The peer copies the same files from the same disk through the same sshd.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.bundles import write_shards
from tests.support.engine import Engine
from tests.support.images import Images
from tests.support.sshd import Sshd

from .measure import Ran, environment
from .scale import controller

GB = 10**9
_ADDRESS = "127.1.0.1"
"""Of the host: another one than the controller's, so that it is reached through SSH."""
_SFTP = "/usr/lib/openssh/sftp-server"
_SHARE, _CPU = 0.9, 1.3
"""Goals: this share of scp's speed at least, and this multiple of its CPU time at most."""
_INCLUDES = (
    "`tfprov gather` into an empty directory, from a running container, every tensor read and everything flushed to the "
    "disk; beside `scp -r` of the same files. CPU: the controller's processes alone"
)


@dataclass(frozen=True)
class Site:
    """One host with an engine, and a cluster of one task on it, whose checkpoint directory is `files`."""

    directory: Path
    server: Sshd
    files: Path
    env: Mapping[str, str]

    @property
    def target(self) -> Path:
        """The directory to gather into."""
        return self.directory / "gathered" / "bench"

    def tfprov(self, *words: str) -> Ran:
        """Run a verb."""
        verb, *rest = words
        return controller(
            [sys.executable, "-m", "tfprov", verb, "-i", str(self.inventory), *rest], self.env, self.directory
        )

    @property
    def inventory(self) -> Path:
        """The inventory."""
        return self.directory / "inventory.yml"

    def write(self, port: int | None = None) -> None:
        """Write the inventory and known_hosts; the host answers at `port`, by default that of its sshd."""
        port = port or self.server.port
        known_hosts = self.directory / "known_hosts"
        known_hosts.write_text(f"[{_ADDRESS}]:{port} {self.server.public()}\n")
        host = {
            "ansible_host": _ADDRESS,
            "ansible_port": port,
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.server.user_key),
            "ansible_ssh_common_args": f"-F /dev/null -o UserKnownHostsFile={known_hosts}",
        }
        data = json.loads(self.inventory.read_text()) if self.inventory.exists() else {}
        data["all"]["children"]["worker"]["hosts"]["h1"] = host
        self.inventory.write_text(json.dumps(data))

    def fill(self, make: Callable[[Path], None]) -> int:
        """Replace the files of the checkpoint directory by those that `make` writes; return their bytes."""
        for path in self.files.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        make(self.files)
        return sum(path.stat().st_size for path in self.files.rglob("*") if path.is_file())

    def gather(self) -> Ran:
        """Gather everything anew."""
        shutil.rmtree(self.target, ignore_errors=True)
        os.sync()
        return self.tfprov("gather")

    def scp(self) -> Ran:
        """Copy everything with the peer."""
        shutil.rmtree(self.directory / "copied", ignore_errors=True)
        os.sync()
        options = [
            "-F",
            "/dev/null",
            "-o",
            f"UserKnownHostsFile={self.directory / 'known_hosts'}",
            "-o",
            "BatchMode=yes",
        ]
        return controller(
            ["scp", "-r", "-q", "-P", str(self.server.port), "-i", str(self.server.user_key), *options,
             f"root@{_ADDRESS}:{self.files}", str(self.directory / "copied")],
            self.env, self.directory,
        )  # fmt: skip


def checkpoint(shards: int, size: int) -> Callable[[Path], None]:
    """Return what writes a checkpoint of `size` bytes in `shards` data files."""
    number = 12

    def write(directory: Path) -> None:
        write_shards(directory / "model.ckpt-100", shards, (os.urandom(size // number) for _ in range(number)))
        (directory / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-100"\n')

    return write


def small_files(number: int) -> Callable[[Path], None]:
    """Return what writes `number` files of 1 kB beside a small checkpoint."""

    def write(directory: Path) -> None:
        checkpoint(1, 12_000)(directory)
        (directory / "eval").mkdir()
        for index in range(number):
            (directory / "eval" / f"{index:05}.json").write_bytes(os.urandom(1000))

    return write


@contextmanager
def site(engine: Engine, images: Images, directory: Path) -> Iterator[Site]:
    """Yield the host with a running cluster, and remove both afterwards."""
    server = Sshd(directory / "sshd", address="0.0.0.0")
    server.prepare()
    server.options = (
        f"SetEnv HOME={server.directory} DOCKER_HOST={engine.url}", "UseDNS no", "LogLevel ERROR", f"Subsystem sftp {_SFTP}"
    )  # fmt: skip
    settings = {
        "cluster": "bench", "image": {"archive": str(images.archive(images.python()))}, "code": None,
        "command": ["sh", "-c", "exec sleep 100000"], "address": str(engine.network.inside), "ready": "start",
        "checkpoints": {"to": str(directory / "gathered")},
    }  # fmt: skip
    (directory / "inventory.yml").write_text(
        json.dumps({"all": {"vars": {"tfprov": settings}, "children": {"worker": {"hosts": {}}}}})
    )
    variables = {"XDG_STATE_HOME": f"{directory}/state", "XDG_CACHE_HOME": f"{directory}/cache", "HOME": str(directory)}
    server.start()
    try:
        made = Site(directory, server, Path(), environment(variables, directory / "byte-code"))
        made.write()
        made.tfprov("up")
        volume = engine.client.volumes.list(filters={"label": "tfprov.cluster=bench"})[0]
        files = engine.store / "data" / "volumes" / str(volume.name) / "_data"
        yield Site(directory, server, files, made.env)
        made.tfprov("down", "--discard")
    finally:
        server.stop()
