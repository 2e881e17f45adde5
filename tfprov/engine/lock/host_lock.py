"""The lock on the cluster's first host, against other controllers and other users.

A program on the host holds a lock file for as long as the channel to it is open, so that it ends with its controller.
"""

import contextlib
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tfprov.engine.lock.holder import UNKNOWN, LockHolder
from tfprov.errors import HostError, Locked, one_line, printable
from tfprov.hosts.ssh.shell import held_command

_LIMIT = 60.0
"""Seconds a shell of this machine may take until it holds the lock, or says who does."""


@dataclass(frozen=True)
class LockPaths:
    """Where the lock files of a host lie.

    With `socket`, the engine's, the users of its group share a directory below `shared`; everybody else has one below
    `own`, by default the home directory.
    """

    shared: str = "/tmp"  # noqa: S108  the name of the group's directory there is no secret, and its group is checked
    socket: str = "/var/run/docker.sock"
    own: str = ""


LOCK_PATHS = LockPaths()
"""Where they lie on every host."""

# Only a member of a group, or root, can make a directory that belongs to the group: so its group says whether it is ours,
# whoever was first to make one of that name in a directory where everybody may. Nobody else gets into it: whatever lies in
# it was put there by somebody who may use the engine. All is read and written through the descriptor that is locked.
# $4 is the token of a holder that is known to be dead, or is ourselves: sshd has not noticed yet that its connection is.
_SCRIPT = r"""name=$1 who=$2 dead=$3 shared=$4 socket=$5 own=$6
umask 077
nap() { sleep 0.3 2>/dev/null || sleep 1; }
strange() { printf 'strange %s %s %s
' "$(stat -c %U "$1")" "$2" "$1"; exit; }
command -v flock >/dev/null || { echo missing; exit; }
me=$(id -u) group=$(stat -L -c %g "$socket" 2>/dev/null)
case " $(id -G) " in *" $group "*) ours=$group ;; *) ours= ;; esac
[ "$me" = 0 ] && ours=$group
if [ -n "$ours" ]; then
    d=$shared/.tfprov-$ours
    if [ ! -e "$d" ] && [ ! -L "$d" ]; then
        # It gets its name once it is the group's: whoever comes meanwhile would take it for a stranger's.
        new=$(mktemp -d "$d.XXXXXX") && chgrp "$ours" "$new" && chmod 2770 "$new" && mv -T "$new" "$d" 2>/dev/null
        [ ! -d "$new" ] || rmdir "$new"
        [ -e "$d" ] || [ -L "$d" ] || { echo "$d cannot be made" >&2; exit; }
    fi
    { [ -d "$d" ] && [ ! -L "$d" ] && [ "$(stat -c %g "$d")" = "$ours" ]; } || strange "$d" directory
    case $(stat -c %a "$d") in *0) ;; *) strange "$d" directory ;; esac
    umask 007
else
    d=${own:-$HOME}/.tfprov
    mkdir -p "$d" || exit
    { [ ! -L "$d" ] && [ "$(stat -c %u "$d")" = "$me" ]; } || strange "$d" directory
    chmod 700 "$d"
fi
f=$d/$name.lock
{ [ ! -e "$f" ] && [ ! -L "$f" ]; } || { [ -f "$f" ] && [ ! -L "$f" ]; } || strange "$f" file
exec 9<>"$f" || exit
flock -n 9; code=$? tries='1 2 3'
if [ $code -eq 1 ] && [ -n "$dead" ]; then
    read -r pid token rest <"$f"
    [ "$token" = "$dead" ] && [ "/proc/$pid/fd/9" -ef "$f" ] && kill "$pid" && tries='1 2 3 4 5 6 7 8 9'
fi
for try in $tries; do # who has let it go may take a moment to end, and who has just got it to sign
    [ $code -ne 1 ] || { nap; flock -n 9; code=$?; }
done
if [ $code -eq 1 ]; then
    read -r line <&9
    printf 'taken %.2000s
' "$line"
    exit
fi
[ $code -eq 0 ] || exit
printf '%-900s
' "$$ $who" >&9
echo held
exec sleep 2000000000
"""


class HeldProcess(Protocol):
    """A command on a host that lives as long as this is open, as `SSH.hold` returns it."""

    @property
    def first_line(self) -> str:
        """The first line that it printed."""

    @property
    def alive(self) -> bool:
        """Whether it still runs, as far as is known here."""

    def error_text(self) -> str:
        """Return what it printed on its standard error, on one line."""

    def close(self) -> None:
        """End it."""


class LockableHost(Protocol):
    """A host on which a command can be held: an SSH connection, or `LocalHost`."""

    @property
    def host(self) -> str:
        """Its name in the inventory."""

    def hold(self, argv: Sequence[str]) -> HeldProcess:
        """Start `argv`, to live as long as what is returned, and wait until it prints a line, or ends."""

    def explain(self, error: HostError) -> HostError:
        """Return why commands do not run there as they are sent, where that is behind `error`; else `error`."""


class HostLock:
    """The lock of `cluster` on one host, for the run that `facts` describe; its `token` is like no other run's."""

    def __init__(
        self, way: LockableHost, cluster: str, facts: LockHolder, token: str, where: LockPaths = LOCK_PATHS
    ) -> None:
        self.host, self.cluster = way.host, cluster
        self.way, self._facts, self._token, self._where = way, facts, token, where
        self._held: HeldProcess | None = None

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

    def _try(self, dead: str) -> tuple[str, LockHolder | None]:
        """Try once; return the token and the facts of who has it, as far as they can be read."""
        who = f"{self._token} {self._facts.to_text()}"
        places = (self._where.shared, self._where.socket, self._where.own)
        held = self.way.hold(["sh", "-c", _SCRIPT, "sh", self.cluster, who, dead, *places])
        if held.first_line == "held":
            self._held = held
            return "", None
        try:
            return self._refused(held)
        finally:
            held.close()

    def _refused(self, held: HeldProcess) -> tuple[str, LockHolder | None]:
        verdict, _, rest = held.first_line.partition(" ")
        if verdict == "taken":
            _, _, signed = rest.partition(" ")
            token, _, text = signed.partition(" ")
            return token, LockHolder.read(text)
        if verdict == "missing":
            raise HostError(self.host, "there is no `flock`, which the lock needs", "install util-linux there")
        if verdict == "strange":
            raise self._in_the_way(rest)
        reason = held.error_text() or "the host gave no reason"
        raise self.way.explain(HostError(self.host, f"the lock of cluster {self.cluster} could not be taken: {reason}"))

    def _in_the_way(self, words: str) -> HostError:
        owner, kind, path = [*words.split(" ", 2), "", ""][:3]  # a host may print anything
        purpose = (
            "the directory for locks of the engine's users" if kind == "directory" else "a file that can be locked"
        )
        clean = "".join(character if character.isprintable() else "?" for character in path)
        what = f"{clean} of user {printable(owner)} is not {purpose}"
        return HostError(self.host, what, "have its owner or root remove it there")


class LocalHost:
    """This machine, as a host of the cluster that is reached without SSH: others may reach it with."""

    def __init__(self, host: str) -> None:
        self.host = host

    def explain(self, error: HostError) -> HostError:
        """See LockableHost: no login is in between."""
        return error

    def hold(self, argv: Sequence[str]) -> "ChildProcess":
        """See LockableHost."""
        # A session of its own: it ends its whole process group, and Ctrl-C is not for it.
        process = subprocess.Popen(
            held_command(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        return ChildProcess(process)


class ChildProcess:
    """A child process that ends with this one: its standard input is the line it hangs on."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        assert process.stdout is not None
        self.first_line = process.stdout.readline().decode(errors="replace").rstrip("\n")

    @property
    def alive(self) -> bool:
        """See HeldProcess."""
        return self._process.poll() is None

    def error_text(self) -> str:
        """See HeldProcess; it has ended by now."""
        assert self._process.stderr is not None
        return one_line(self._process.stderr.read().decode(errors="replace"))

    def close(self) -> None:
        """See HeldProcess."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=_LIMIT)
