"""The half of the lock that is on a host: two controllers, or two users, that work on the same engines.

A program on the host holds a lock file for as long as the channel to it is open, so that it ends with its controller.
"""

import contextlib
import subprocess
from collections.abc import Sequence
from typing import Protocol

from tfprov.engine.locking.facts import UNKNOWN, Facts
from tfprov.errors import HostError, Locked, one_line
from tfprov.hosts.ssh_shell import holding

DIRECTORY = "/tmp"  # noqa: S108  every user of a host may write there, and only there
"""Where the lock file of a cluster lies on a host."""
_LIMIT = 60.0
"""Seconds a shell of this machine may take until it holds the lock, or says who does."""

# Users differ, and where the kernel guards sticky directories (fs.protected_regular), nobody may open another's file
# there with O_CREAT: so the file is made only when it is not there, readable and writable for all, and opened for reading,
# which is enough to lock it. Whoever holds it is written into it without O_CREAT, and without being vital.
# $3 is the token of a holder that is known to be dead, or is ourselves: sshd has not noticed yet that its connection is.
_SCRIPT = r"""f=$1 who=$2 dead=$3
nap() { sleep 0.3 2>/dev/null || sleep 1; }
command -v flock >/dev/null || { echo missing; exit; }
[ -e "$f" ] || (umask 0; set -C; : >"$f") 2>/dev/null
{ [ -f "$f" ] && [ ! -L "$f" ] && [ -r "$f" ]; } || { echo strange; exit; }
exec 9<"$f"
flock -n 9; code=$? tries='1 2 3'
if [ $code -eq 1 ] && [ -n "$dead" ]; then
    read -r pid token rest <"$f"
    [ "$token" = "$dead" ] && [ "/proc/$pid/fd/9" -ef "$f" ] && kill "$pid" && tries='1 2 3 4 5 6 7 8 9'
fi
for try in $tries; do # who has let it go may take a moment to end, and who has just got it to sign
    [ $code -ne 1 ] || { nap; flock -n 9; code=$?; }
done
if [ $code -eq 1 ]; then
    read -r line <"$f"
    printf 'taken %.2000s\n' "$line"
    exit
fi
[ $code -eq 0 ] || exit
printf '%-900s\n' "$$ $who" | dd of="$f" conv=nocreat,notrunc 2>/dev/null || (printf '%s\n' "$$ $who" >"$f") 2>/dev/null
echo held
exec sleep 2000000000
"""


class Held(Protocol):
    """A command on a host that lives as long as this is open, as `SSH.hold` returns it."""

    @property
    def said(self) -> str:
        """The first line that it printed."""

    @property
    def alive(self) -> bool:
        """Whether it still runs, as far as is known here."""

    def complaint(self) -> str:
        """Return what it printed on its standard error, on one line."""

    def close(self) -> None:
        """End it."""


class Holds(Protocol):
    """A host on which a command can be held: an SSH connection, or `Shell`."""

    @property
    def host(self) -> str:
        """Its name in the inventory."""

    def hold(self, argv: Sequence[str]) -> Held:
        """Start `argv`, to live as long as what is returned, and wait until it prints a line, or ends."""

    def explained(self, error: HostError) -> HostError:
        """Return why commands do not run there as they are sent, where that is behind `error`; else `error`."""


class HostLock:
    """The lock of `cluster` on one host, for the run that `facts` describe; its `token` is like no other run's."""

    def __init__(self, way: Holds, cluster: str, facts: Facts, token: str, directory: str = DIRECTORY) -> None:
        self.host, self.cluster = way.host, cluster
        self.way, self._facts, self._token = way, facts, token
        self._path = f"{directory}/.tfprov-{cluster}.lock"
        self._held: Held | None = None

    @property
    def alive(self) -> bool:
        """Whether it is held, as far as is known here: a connection that was lost may have freed it."""
        return self._held is not None and self._held.alive

    def take(self) -> None:
        """Take it. Locked names who has it; HostError and Unreachable as ever.

        A holder of which it is certain that it is dead is ended; so is what is left of this run's own lost connection.
        """
        token, holder = self._try("")
        if token and (token == self._token or (holder is not None and holder.is_dead())):
            token, holder = self._try(token)
        if self._held is None:
            fix = f"wait for it, or stop it; if its machine is gone, sshd on {self.host} frees the lock when it notices"
            what = f"cluster {self.cluster} is in use by {holder or UNKNOWN}, says {self.host}"
            raise Locked(what, f"{fix} (ClientAliveInterval in its sshd_config)")

    def free(self) -> None:
        """Let it go; a second time does nothing."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _try(self, dead: str) -> tuple[str, Facts | None]:
        """Try once; return the token and the facts of who has it, as far as they can be read."""
        who = f"{self._token} {self._facts.to_text()}"
        held = self.way.hold(["sh", "-c", _SCRIPT, "sh", self._path, who, dead])
        if held.said == "held":
            self._held = held
            return "", None
        try:
            return self._refused(held)
        finally:
            held.close()

    def _refused(self, held: Held) -> tuple[str, Facts | None]:
        verdict, _, rest = held.said.partition(" ")
        if verdict == "taken":
            _, _, signed = rest.partition(" ")
            token, _, text = signed.partition(" ")
            return token, Facts.read(text)
        if verdict == "missing":
            raise HostError(self.host, "there is no `flock`, which the lock needs", "install util-linux there")
        if verdict == "strange":
            raise HostError(self.host, f"{self._path} is not a file that can be locked", "remove it there")
        reason = held.complaint() or "the host gave no reason"
        raise self.way.explained(HostError(self.host, f"the lock {self._path} could not be taken: {reason}"))


class Shell:
    """This machine, as a host of the cluster that is reached without SSH: others may reach it with."""

    def __init__(self, host: str) -> None:
        self.host = host

    def explained(self, error: HostError) -> HostError:
        """See Holds: no login is in between."""
        return error

    def hold(self, argv: Sequence[str]) -> "Child":
        """See Holds."""
        # A session of its own: it ends its whole process group, and Ctrl-C is not for it.
        process = subprocess.Popen(
            holding(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        return Child(process)


class Child:
    """A child process that ends with this one: its standard input is the line it hangs on."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        assert process.stdout is not None
        self.said = process.stdout.readline().decode(errors="replace").rstrip("\n")

    @property
    def alive(self) -> bool:
        """See Held."""
        return self._process.poll() is None

    def complaint(self) -> str:
        """See Held; it has ended by now."""
        assert self._process.stderr is not None
        return one_line(self._process.stderr.read().decode(errors="replace"))

    def close(self) -> None:
        """See Held."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=_LIMIT)
