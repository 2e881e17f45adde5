"""A network of the test engine's own: a namespace, a pair of devices that leads into it, and a way out for downloads.

Two engines in one network namespace fight: on its start dockerd removes iptables' DOCKER chains, and with them what a
machine's real engine publishes. What lies inside the namespace ends with it; outside are one device and three rules of
iptables, which all carry the network's name.
"""

import fcntl
import json
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Network, ip_network
from pathlib import Path
from typing import Any

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
LOCK = Path("/run/tfprov-tests.lock")
"""Held while a session looks for a free subnet and takes it: two that look at the same time would find the same one."""


_LISTEN = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
with socket.socket(fileno=int(sys.argv[1])) as to:
    socket.send_fds(to, [b"x"], [listener.fileno()])
"""


class Network:
    """The namespace `name`, which is also the name of the device outside: 15 characters at most.

    `subnet` is a /16, by default one that collides with no route of this machine. Its first /24 is for the engine's own
    bridge, its last /30 for the two devices; the rest is for the networks of tests.
    """

    def __init__(self, name: str, subnet: IPv4Network | None = None) -> None:
        self.name = name
        self._use(subnet or free_subnet())
        self.mtu = outward_mtu()

    def _use(self, subnet: IPv4Network) -> None:
        self.subnet, self.outside, self.inside = subnet, subnet[-3], subnet[-2]

    @property
    def enter(self) -> list[str]:
        """The words before a command that runs inside; not `ip netns exec`, whose fresh /sys hides the cgroups."""
        return ["nsenter", f"--net=/run/netns/{self.name}", "--"]

    def up(self) -> None:
        """Make it; what is left of an earlier one goes first."""
        self.down()
        name, mtu = self.name, str(self.mtu)
        run("ip", "netns", "add", name)
        run("ip", "link", "add", name, "mtu", mtu, "type", "veth", "peer", "name", "eth0", "mtu", mtu, "netns", name)
        with _locked():
            self._use(free_subnet())  # another session may have taken the former one meanwhile
            run("ip", "address", "add", f"{self.outside}/30", "dev", name)
            run("ip", "link", "set", name, "up")  # a route from here on, which others see
        run(*self.enter, "ip", "address", "add", f"{self.inside}/30", "dev", "eth0")
        for device in ("lo", "eth0"):
            run(*self.enter, "ip", "link", "set", device, "up")
        run(*self.enter, "ip", "route", "add", "default", "via", str(self.outside))
        run("ip", "route", "add", str(self.subnet), "via", str(self.inside))
        self._let_out()

    def _let_out(self) -> None:
        """Packages are fetched while images are built."""
        FORWARDING.write_text("1")
        mark = ["-m", "comment", "--comment", self.name]
        answers = ["-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED"]
        iptables("-I", "FORWARD", "-i", self.name, *mark, "-j", "ACCEPT")
        iptables("-I", "FORWARD", "-o", self.name, *answers, *mark, "-j", "ACCEPT")
        source = ["-s", str(self.subnet), "!", "-o", self.name]
        iptables("-t", "nat", "-I", "POSTROUTING", *source, *mark, "-j", "MASQUERADE")

    def let_in(self) -> None:
        """Let this machine reach every port of every container; to be called once the engine has made its chains."""
        run(*self.enter, "iptables", "-w", "-I", "DOCKER-USER", "-i", "eth0", "-j", "ACCEPT")

    def listener(self) -> socket.socket:
        """Return a socket that listens on the network's own loopback: a socket stays where it was made."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            command = [*self.enter, sys.executable, "-c", _LISTEN, str(theirs.fileno())]
            subprocess.run(command, pass_fds=[theirs.fileno()], check=True)
            _, descriptors, *_ = socket.recv_fds(ours, 1, 1)
        return socket.socket(fileno=descriptors[0])

    def down(self) -> None:
        """Remove it, also after a session that was killed."""
        for table, chain in (("filter", "FORWARD"), ("nat", "POSTROUTING")):
            for rule in iptables("-t", table, "-S", chain).splitlines():
                if self.name in rule:
                    iptables("-t", table, "-D", *shlex.split(rule)[1:])
        # A namespace lives until its last process has gone; the device goes at once, and its routes with it.
        subprocess.run(["ip", "link", "delete", self.name], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "delete", self.name], capture_output=True, check=False)


@contextmanager
def _locked() -> Iterator[None]:
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def free_subnet() -> IPv4Network:
    """Return a /16 that no route of this machine, but for the default one, has an address of."""
    routes = [route["dst"] for route in _ip_json("route", "show", "table", "all") if route["dst"] != "default"]
    taken = [ip_network(text) for text in routes if text != "0.0.0.0/0"]
    for second in range(213, 255):
        subnet = IPv4Network(f"10.{second}.0.0/16")
        if not any(subnet.overlaps(network) for network in taken if isinstance(network, IPv4Network)):
            return subnet
    raise RuntimeError("no free subnet between 10.213.0.0/16 and 10.254.0.0/16")


def outward_mtu() -> int:
    """Return the packet size of the way out: larger ones are lost where nobody may say that they are too large."""
    devices = [route["dev"] for route in _ip_json("route", "show", "default") if "dev" in route]
    sizes = [int(Path(f"/sys/class/net/{device}/mtu").read_text()) for device in devices]
    return min([1500, *sizes])


def _ip_json(*arguments: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(run("ip", "-4", "-json", *arguments) or "[]")
    return answer


def iptables(*arguments: str) -> str:
    """Run iptables, waiting for its lock, and return what it printed."""
    return run("iptables", "-w", *arguments)


def run(*argv: str) -> str:
    """Run a command and return its output; raise RuntimeError with its stderr when it fails."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(argv)}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout
