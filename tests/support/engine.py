"""A Docker engine for the tests alone: started with the first test that needs it, gone with the session that did.

It lives in namespaces of its own (processes, mounts, network), and the kernel ends everything in them together: at the
end, after a failure, and when the test process is killed, no container, mount or bridge can stay behind. What does stay
is its store, in `$XDG_CACHE_HOME/tfprov-tests`, so that images are built once.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import IO

import docker

from tests.support.netns import Network
from tests.support.parent_death import WITH_PARENT

COMMANDS = ("dockerd", "docker-init", "containerd", "iptables", "ip", "debootstrap", "ssh", "sshd")
"""What `.ci/engine.sh` installs; `nsenter`, `unshare` and `setpriv` are on every Linux."""


def unavailable() -> str | None:
    """Say why no engine can run here, or return None."""
    if os.geteuid() != 0:
        return "hosts in containers need root: run `sudo make test`"
    if missing := [command for command in COMMANDS if not shutil.which(command)]:
        return f"hosts in containers need {', '.join(missing)}: run `sh .ci/engine.sh`"
    namespaces = ["unshare", "--mount", "--pid", "--net", "--fork", "true"]
    if subprocess.run(namespaces, capture_output=True, check=False).returncode:
        return "hosts in containers need namespaces, and this machine lets root make none"
    return None


class Engine:
    """One dockerd over `store`. Only one can use a store at a time: a second session waits for the first.

    The processes of one session share the engine: the first of them starts it, and at its end waits for the others before
    it stops it. Each holds a lock meanwhile, of which the kernel knows when its process was killed.
    """

    def __init__(self, store: Path) -> None:
        self.store = store
        name = "tfprov" + hashlib.sha256(os.fsencode(store)).hexdigest()[:8]
        self.network = Network(name)
        self.cgroup = f"/{name}"
        # Short, and on a file system that has sockets: the path of a socket has 108 characters at most.
        self.run = Path("/run") / name
        self.log = self.run / "log"
        self.socket = self.run / "docker.sock"
        self.url = f"unix://{self.socket}"
        self._lock: IO[str] | None = None
        self._users: IO[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._client: docker.DockerClient | None = None

    @property
    def client(self) -> docker.DockerClient:
        """The SDK's client, while the engine runs."""
        assert self._client, "the engine was not started"
        return self._client

    @property
    def is_ours(self) -> bool:
        """Whether this process has started it, and not another one of the session."""
        return self._lock is not None

    def start(self, session: str = "") -> None:
        """Start it, and remove what an earlier session left in the store; images stay.

        Where a process of the same `session` has started it already, that one is used; "" is a session of its own.
        """
        self.store.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + 900
        while not self._locked():
            if session and self._joined(session):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"another session has been using {self.store} for 15 minutes")
            time.sleep(0.2)
        self._remove_leftovers()
        self.run.mkdir(mode=0o700)
        # An engine of this machine has its settings in /etc/docker; they are not ours.
        (self.run / "daemon.json").write_text("{}")
        self.network.up()
        with self.log.open("wb") as log:
            # Each container starts some five Go programs for milliseconds, with this environment: their garbage may stay.
            env = {**os.environ, "GOGC": "400"}
            self._process = subprocess.Popen(self._command(), env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        (self.run / "pid").write_text(str(self._process.pid))
        self._wait()
        self._client = self._connected()
        self.network.let_in()
        self.clean()
        self._users = self._user()
        (self.run / "subnet").write_text(str(self.network.subnet))
        (self.run / "session").write_text(session)

    def _locked(self) -> bool:
        """Lock the store, unless another process has; the lock dies with its holder."""
        lock = (self.store / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return False
        self._lock = lock
        return True

    def _joined(self, session: str) -> bool:
        """Use the engine that another process of the session has started, if it is up and not about to be stopped."""
        users = self._user()
        try:
            if (self.run / "session").read_text() == session and answers(self.socket):
                self.network = Network(self.run.name, IPv4Network((self.run / "subnet").read_text()))
                self._client, self._users = self._connected(), users
                return True
        except OSError:  # it is not up yet, or is gone
            pass
        users.close()
        return False

    def _user(self) -> IO[str]:
        """Return a file that is locked as long as this process uses the engine; whoever stops it locks it alone."""
        users = (self.store / "users").open("a")
        fcntl.flock(users, fcntl.LOCK_SH)
        return users

    def _connected(self) -> docker.DockerClient:
        return docker.DockerClient(base_url=self.url, timeout=600)

    def _command(self) -> list[str]:
        # Whoever dies takes the next one along: this process, unshare, and with its first process the whole namespace.
        alone = [*WITH_PARENT, *self.network.enter]
        alone += ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "docker-init", "--"]
        bridge, pool = self.network.subnet[1], list(self.network.subnet.subnets(new_prefix=18))[1]
        return [
            *alone, "dockerd", "--data-root", str(self.store / "data"), "--exec-root", str(self.run / "exec"),
            "--pidfile", str(self.run / "dockerd.pid"), "-H", self.url, "--cgroup-parent", self.cgroup,
            "--bip", f"{bridge}/24", "--default-address-pool", f"base={pool},size=24",
            "--mtu", str(self.network.mtu), "--config-file", str(self.run / "daemon.json"),
        ]  # fmt: skip

    def _wait(self) -> None:
        deadline = time.monotonic() + 300
        while self._process and self._process.poll() is None and time.monotonic() < deadline:
            if answers(self.socket):
                return
            time.sleep(0.05)
        raise RuntimeError(f"dockerd did not start:\n{self.log.read_text(errors='replace')[-2000:]}")

    def clean(self) -> None:
        """Remove all containers, volumes and networks, and images without a name, such as the first stages of builds.

        For the begin and the end of a session: another process may have pulled an image without a name that it needs.
        """
        for container in self.client.containers.list(all=True, ignore_removed=True):
            container.remove(force=True, v=True)
        for volume in self.client.volumes.list():
            volume.remove(force=True)
        self.client.networks.prune()
        self.client.images.prune()

    def stop(self) -> None:
        """Stop it, by its process id, with whatever still runs in it: once nobody else of the session uses it."""
        if not self.is_ours:
            if self._client:
                self._client.close()
            if self._users:
                self._users.close()
            return
        if self._users:
            fcntl.flock(self._users, fcntl.LOCK_EX)
        try:
            if self._client:
                with contextlib.suppress(docker.errors.APIError):
                    if answers(self.socket):
                        self.clean()
                self._client.close()
            if self._process:
                _end(self._process)
        finally:
            self._remove_leftovers()
            if self._users:
                self._users.close()
            if self._lock:
                self._lock.close()

    def _remove_leftovers(self) -> None:
        _kill_earlier(self.run)
        self.network.down()
        shutil.rmtree(self.run, ignore_errors=True)
        # Version 1 has a tree for each controller, version 2 one for all.
        for pattern in (f"*{self.cgroup}", self.cgroup[1:]):
            # The freezer is the first: what it lets go dies, and leaves the others.
            for group in sorted(Path("/sys/fs/cgroup").glob(pattern), key=lambda group: "freezer" not in group.parts):
                _remove_groups(group)


def answers(path: Path) -> bool:
    """Whether an engine listens on the socket at `path`; the SDK's client cannot even be made before one does."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(60)  # one that is not there refuses at once; one on a busy machine takes its time
        try:
            probe.connect(str(path))
            probe.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " in probe.recv(64)
        except OSError:
            return False


def _end(process: "subprocess.Popen[bytes]") -> None:
    """SIGTERM for dockerd, so that its store is whole; unshare itself hears none, and dies when that was not enough."""
    if process.poll() is not None:
        return
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGTERM)
    try:
        process.wait(120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _kill_earlier(run: Path) -> None:
    """A number can have passed to another process since: its command line must name our directory."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((run / "pid").read_text())
        if os.fsencode(run) in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
            while Path(f"/proc/{pid}").exists():
                time.sleep(0.05)


def _remove_groups(top: Path) -> None:
    """A control group is removed from the inside out; one whose processes are just dying is removed a moment later."""
    for state in top.rglob("freezer.state"):
        # What is frozen does not die, not even of SIGKILL.
        with contextlib.suppress(OSError):
            state.write_text("THAWED")
    for _ in range(50):
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
        if not top.exists():
            return
        time.sleep(0.1)


def running(store: Path, session: str = "") -> Iterator[Engine]:
    """Yield an engine that is stopped afterwards: for a fixture."""
    engine = Engine(store)
    try:
        engine.start(session)
        yield engine
    finally:
        engine.stop()
