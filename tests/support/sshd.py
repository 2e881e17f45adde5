"""A private sshd on the loopback: its own host keys, authorized keys and configuration, run by the user of the tests."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.marked_processes import kill_marked_processes
from tests.support.ports import free_port
from tests.support.waiting import until

PATIENCE = 300.0
"""Seconds until an sshd that does not answer fails the test."""


def program() -> str | None:
    """Return the sshd of this machine; it wants to be started by its full path."""
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    """Make a key pair in place of an earlier one and return the path of its private half."""
    for old in (path, path.with_name(f"{path.name}.pub")):
        old.unlink(missing_ok=True)
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path


def fingerprint(public: Path) -> str:
    """Return the SHA256 fingerprint as OpenSSH shows it."""
    command = ["ssh-keygen", "-l", "-E", "sha256", "-f", str(public)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[1]


@dataclass
class Sshd:
    """One sshd in `directory`; `options` are lines of its configuration that come before ours, so they win."""

    directory: Path
    options: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    address: str = "127.0.0.1"
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def host_key(self) -> Path:
        return self.directory / "host_ed25519"

    @property
    def user_key(self) -> Path:
        return self.directory / "user_ed25519"

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    def public(self, key: Path | None = None) -> str:
        """Return type and data of a public key, as in known_hosts; default: the host's."""
        key = key or self.host_key
        return " ".join(key.with_name(f"{key.name}.pub").read_text().split()[:2])

    def prepare(self) -> None:
        """Make the keys and write the files, known_hosts included."""
        self.directory.mkdir(parents=True, exist_ok=True)
        make_key(self.host_key)
        make_key(self.user_key)
        (self.directory / "authorized_keys").write_text(f"{self.public(self.user_key)}\n")
        self.trust()

    def trust(self) -> None:
        """Write the present host key, and nothing else, to known_hosts."""
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {self.public()}\n")

    def configuration(self) -> str:
        ours = (
            f"ListenAddress {self.address}:{self.port}",
            f"HostKey {self.host_key}",
            f"AuthorizedKeysFile {self.directory / 'authorized_keys'}",
            f"PidFile {self.directory / 'pid'}",
            "StrictModes no",
            "UsePAM no",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "PermitRootLogin yes",
            f"SetEnv HOME={self.directory}",  # the start-up files of whoever runs the tests may do anything, slowly
        )
        return "\n".join((*self.options, *ours, ""))

    def start(self) -> None:
        """Start it and wait until it listens."""
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where a root sshd locks up its unprivileged half
        config = self.directory / "sshd_config"
        config.write_text(self.configuration())
        command = [program() or "sshd", "-D", "-e", "-f", str(config)]
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while not self._listens():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"sshd does not serve:\n{(self.directory / 'log').read_text()}")
            time.sleep(0.01)

    def _listens(self) -> bool:
        """Whether the port is ours, from the kernel's table: a probing connection would count against MaxStartups."""
        rows = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
        return any(row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == self.port for row in rows)

    def children(self) -> list[int]:
        """Return the pids of the processes that serve one connection each."""
        assert self.process is not None
        return _children(self.process.pid)

    def programs(self, command: bytes) -> list[int]:
        """Return the pids of all that runs below this sshd, at any depth, whose command line holds `command`."""
        below = self.children()
        for pid in below:  # grows while it is gone through
            below += _children(pid)
        return [pid for pid in below if command in _command_line(pid)]

    def cut(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End (or, with SIGSTOP, freeze) every connection there is, from the host's side; its programs are left alone."""
        for pid in [pid for child in self.children() for pid in (child, *_children(child))]:
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().startswith("sshd"):
                    os.kill(pid, number)

    def end_programs(self) -> None:
        """End what this sshd has started and goes on without its connection; HOME tells whose a program is."""
        until(lambda: kill_marked_processes(f"HOME={self.directory}"), "its programs have ended")

    def stop(self) -> None:
        """End the listener and all connections; what was frozen with them."""
        if self.process is None:
            return
        self.cut()
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.process = None


def _children(parent: int) -> list[int]:
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((process / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                pids.append(int(process.name))
    return pids


def _command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    return b""


@contextlib.contextmanager
def sshd(directory: Path, *options: str) -> Iterator[Sshd]:
    """Run an sshd for the length of a `with`."""
    server = Sshd(directory, options)
    server.prepare()
    server.start()
    try:
        yield server
    finally:
        server.stop()
