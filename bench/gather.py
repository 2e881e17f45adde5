"""What a gather costs beside `scp`, from a container of an engine behind a real sshd.

Controller, sshd and engine share this machine. The peer copies the same files from the same disk through the same sshd,
over the loopback or a link of 1 Gbit/s: a pair of network devices whose queue sends no faster.
"""

import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median as middle

from tests.support import engine as engines
from tests.support.bundles import write_shards
from tests.support.cutting_proxy import CuttingProxy, cutting
from tests.support.engine import Engine
from tests.support.images import Images
from tests.support.paths import cache_home
from tests.support.sshd import Sshd

from .measure import Figure, Ran, compared, environment, in_turn, median, say, seconds
from .scale import controller

GB = 10**9
_LOOPBACK = "127.1.0.1"
"""The host's address; the controller's own would need no SSH."""
_SFTP = "/usr/lib/openssh/sftp-server"
_SPEED, _CPU = 0.9, 1.3
"""Goals: this share of the peer's speed at least, and this multiple of its CPU time at most."""
_BEYOND = 0.3
"""Seconds of a gather that brings nothing, beyond those for the connection."""
_INCLUDES = (
    "`tfprov gather` into an empty directory, from a running container, every tensor read and everything flushed to the "
    "disk; peer: `scp -r` of the same files, which does neither. CPU: of the controller's processes alone"
)
_CONNECT = """\
import sys
from pathlib import Path
from tfprov.hosts.ssh.client_config import SSHTarget
from tfprov.hosts.ssh.host import SSHHost
address, port, key, known_hosts = sys.argv[1:]
files = {"key_files": (Path(key),), "known_hosts": (Path(known_hosts),)}
with SSHHost(SSHTarget("h1", address, port=int(port), user="root", **files)) as host:
    host.run(["true"])
"""


@dataclass(frozen=True)
class Site:
    """One host with an engine, and a cluster of one task on it, whose checkpoint directory is `files`.

    The host answers at `address` and `port`; `enter` are words before every command, which lead to where it is reached.
    """

    directory: Path
    server: Sshd
    files: Path
    env: Mapping[str, str]
    port: int
    address: str = _LOOPBACK
    enter: tuple[str, ...] = ()

    @property
    def target(self) -> Path:
        """The directory to gather into."""
        return self.directory / "gathered" / "bench"

    @property
    def known_hosts(self) -> Path:
        """The file with the host's key."""
        return self.directory / "known_hosts"

    def run(self, *words: str) -> Ran:
        """Run a command; its CPU time is that of the controller."""
        return controller([*self.enter, *words], self.env, self.directory)

    def tfprov(self, verb: str, *words: str) -> Ran:
        """Run a verb."""
        self._write()
        return self.run(sys.executable, "-m", "tfprov", verb, "-i", str(self.directory / "inventory.yml"), *words)

    def _write(self) -> None:
        self.known_hosts.write_text(f"[{self.address}]:{self.port} {self.server.public()}\n")
        inventory = self.directory / "inventory.yml"
        data = json.loads(inventory.read_text())
        data["all"]["children"]["worker"]["hosts"]["h1"] = {
            "ansible_host": self.address,
            "ansible_port": self.port,
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.server.user_key),
            "ansible_ssh_common_args": f"-F /dev/null -o UserKnownHostsFile={self.known_hosts}",
        }
        inventory.write_text(json.dumps(data))

    def fill(self, write: Callable[[Path], None]) -> None:
        """Replace the files of the checkpoint directory by those that `write` makes."""
        for path in self.files.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        write(self.files)

    def gather(self) -> Ran:
        """Gather everything anew."""
        shutil.rmtree(self.target, ignore_errors=True)
        os.sync()
        return self.tfprov("gather")

    def scp(self) -> Ran:
        """Copy everything with the peer."""
        copied = self.directory / "copied"
        shutil.rmtree(copied, ignore_errors=True)
        os.sync()
        self._write()
        options = ("-F", "/dev/null", "-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "BatchMode=yes")
        login = ("-P", str(self.port), "-i", str(self.server.user_key))
        return self.run("scp", "-r", "-q", *login, *options, f"root@{self.address}:{self.files}", str(copied))

    def connect(self) -> Ran:
        """Start Python, connect as tfprov does, and run `true`."""
        self._write()
        key = str(self.server.user_key)
        return self.run(sys.executable, "-c", _CONNECT, self.address, str(self.port), key, str(self.known_hosts))

    def check(self) -> None:
        """Compare every byte that was gathered; RuntimeError if one differs."""
        names = [path.relative_to(self.files) for path in self.files.rglob("*") if path.is_file()]
        for name in names:
            if name.name != "checkpoint" and not filecmp.cmp(self.files / name, self.target / name, shallow=False):
                raise RuntimeError(f"{name} differs")


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
    environ = f"SetEnv HOME={server.directory} DOCKER_HOST={engine.url}"
    server.options = (environ, "UseDNS no", "LogLevel ERROR", f"Subsystem sftp {_SFTP}")
    settings = {
        "cluster": "bench", "image": {"archive": str(images.archive(images.python()))}, "code": None,
        "command": ["sh", "-c", "exec sleep 100000"], "address": str(engine.network.inside), "ready": "start",
        "checkpoints": {"to": str(directory / "gathered")},
    }  # fmt: skip
    inventory = {"all": {"vars": {"tfprov": settings}, "children": {"worker": {"hosts": {}}}}}
    (directory / "inventory.yml").write_text(json.dumps(inventory))
    variables = {"XDG_STATE_HOME": f"{directory}/state", "XDG_CACHE_HOME": f"{directory}/cache", "HOME": str(directory)}
    env = environment(variables, directory / "byte-code")
    server.start()
    try:
        made = Site(directory, server, Path(), env, server.port)
        made.tfprov("up")
        volume = engine.client.volumes.list(filters={"label": "tfprov.cluster=bench"})[0]
        made = replace(made, files=engine.store / "data" / "volumes" / str(volume.name) / "_data")
        yield made
        made.tfprov("down", "--discard")
    finally:
        server.stop()


@contextmanager
def slow_link(made: Site, engine: Engine) -> Iterator[Site]:
    """Yield the site as it is reached over 1 Gbit/s, from the engine's network."""
    queue = ["tc", "qdisc", "add", "dev", engine.network.name, "root"]
    subprocess.run([*queue, "tbf", "rate", "1gbit", "burst", "256kb", "latency", "50ms"], check=True)
    try:
        yield replace(made, address=str(engine.network.outside), enter=tuple(engine.network.enter))
    finally:
        subprocess.run(["tc", "qdisc", "del", "dev", engine.network.name, "root"], check=True)


def figures(rounds: int, *, small: bool) -> list[Figure]:
    """Measure everything; `small` takes a hundredth of the bytes and files, as a test of the benchmark."""
    size, number = (GB // 100, 100) if small else (GB, 10_000)
    with ExitStack() as stack:
        engine = stack.enter_context(contextmanager(engines.running)(cache_home()))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tfprov-bench-")))
        say("gather: the host and its images")
        made = stack.enter_context(site(engine, Images(engine, directory), directory))
        result = _beside(made, f"{number:,} files of 1 kB", small_files(number), rounds)
        result.append(_again(made, rounds))
        result += _beside(made, f"{size / GB:g} GB in 3 shards", checkpoint(3, size), rounds)
        result += _beside(made, f"{size / GB:g} GB", checkpoint(1, size), rounds)
        with slow_link(made, engine) as linked:
            result += _beside(linked, f"{size / GB:g} GB, 1 Gbit/s", None, rounds)
        result += _cut(made, size, rounds, 3 if small else 10)
    return result


def _beside(made: Site, what: str, write: Callable[[Path], None] | None, rounds: int) -> list[Figure]:
    """Measure both contenders with the files that `write` makes, or those that are there."""
    say(f"gather: {what}, {rounds} rounds")
    if write is not None:
        made.fill(write)
    runs = in_turn({"tfprov": made.gather, "scp": made.scp}, rounds)
    made.check()
    return [
        compared(f"gather {what}; scp", runs["tfprov"], runs["scp"], 1 / _SPEED, _INCLUDES),
        _cpu(f"gather {what}, CPU; scp", runs["tfprov"], runs["scp"]),
    ]


def _cpu(what: str, ours: Sequence[Ran], peer: Sequence[Ran]) -> Figure:
    mine, theirs = middle(ran.cpu for ran in ours), middle(ran.cpu for ran in peer)
    goal = f"<= {_CPU:.2f}"
    return Figure(
        what, f"{mine:.2f} s", f"{theirs:.2f} s", mine / theirs, goal, mine <= _CPU * theirs, includes=_INCLUDES
    )


def _again(made: Site, rounds: int) -> Figure:
    made.gather()
    runs = in_turn({"again": lambda: made.tfprov("gather"), "connect": made.connect}, rounds + 4)
    beyond = median(runs["again"]) - median(runs["connect"])
    shown = f"{seconds(runs['again'])}, CPU {middle(ran.cpu for ran in runs['again']):.2f} s"
    connect = f"{seconds(runs['connect'])}, CPU {middle(ran.cpu for ran in runs['connect']):.2f} s"
    includes = "a second gather; peer: Python, tfprov's connection to the host, `true`"
    goal = f"<= {_BEYOND:.2f} s beyond"
    return Figure("gather, nothing new; connection", shown, connect, None, goal, beyond <= _BEYOND, includes=includes)


def _cut(made: Site, size: int, rounds: int, cuts: int) -> list[Figure]:
    """Cut the connection again and again; the peer's is not cut, because it would begin anew."""
    say(f"gather: cut {cuts} times, {rounds} rounds")
    sent: list[int] = []
    with cutting(made.port) as proxy:
        through = replace(made, address="127.0.0.1", port=proxy.port)
        ours = partial(_gather_cut, through, proxy, size // (cuts + 1), cuts, sent)
        runs = in_turn({"tfprov": ours, "scp": through.scp}, rounds)
    made.check()
    ratio = max(sent) / size
    includes = f"the same over a proxy that cuts the connection {cuts} times; peer: scp through it, not cut"
    return [
        compared(f"gather, cut {cuts} times; scp", runs["tfprov"], runs["scp"], None, includes),
        Figure(f"gather, cut {cuts} times: bytes", f"{max(sent) / 10**6:.0f} MB", f"{size / 10**6:.0f} MB", ratio,
               "<= 1.10", ratio <= 1.1, includes="all that the controller was sent, beside the checkpoint's size"),
    ]  # fmt: skip


def _gather_cut(made: Site, proxy: CuttingProxy, every: int, cuts: int, sent: list[int]) -> Ran:
    proxy.every, proxy.cuts, proxy.received = every, cuts, 0
    ran = made.gather()
    if proxy.cuts:
        raise RuntimeError(f"the connection was cut {cuts - proxy.cuts} times only")
    sent.append(proxy.received)
    return ran
