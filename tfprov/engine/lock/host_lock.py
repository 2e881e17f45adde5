"""One part of a `ClusterLock`: a lock file on a host, against other controllers and other users.

A shell on the host holds the file with flock for as long as the SSH channel to it is open, so it ends with its controller.
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
"""Seconds for a shell of this machine to end."""


@dataclass(frozen=True)
class LockPaths:
    """The directories of a host's lock files.

    Users in the group of the engine's `socket` share a directory below `shared`; others have one below `own`, by default
    their home directory.
    """

    shared: str = "/tmp"  # noqa: S108  the name of the group's directory there is no secret, and its group is checked
    socket: str = "/var/run/docker.sock"
    own: str = ""


LOCK_PATHS = LockPaths()
"""The paths on every host."""

# Anybody may create a directory of this name in /tmp, but only root and members of the group can give it to the group. So
# the script checks its group, and its files come from users of the engine. It reads and writes only through the locked
# descriptor. $3 is the token of a holder that is dead, or of this run: sshd may not have noticed that its connection is.
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
    """A command on a host that runs until `close`, as `SSHHost.hold` returns it."""

    @property
    def first_line(self) -> str:
        """The first line of its output."""

    @property
    def alive(self) -> bool:
        """Whether it runs, as far as is known to this side."""

    def error_text(self) -> str:
        """Return its standard error on one line."""

    def close(self) -> None:
        """End the command."""


class LockableHost(Protocol):
    """A host on which a lock can be held by a command: an SSHHost, or LocalHost."""

    @property
    def host(self) -> str:
        """The host's name in the inventory."""

    def hold(self, argv: Sequence[str]) -> HeldProcess:
        """Start `argv`, and wait until it prints a line or ends. It runs until the result is closed."""

    def explain(self, error: HostError) -> HostError:
        """Return the error of the account that caused `error`, such as a login shell without commands; else `error`."""


class HostLock:
    """The lock of `cluster` on one host, for the run `holder`, with its unique `token`."""

    def __init__(
        self, lockable: LockableHost, cluster: str, holder: LockHolder, token: str, paths: LockPaths = LOCK_PATHS
    ) -> None:
        self.host, self.cluster = lockable.host, cluster
        self.lockable, self._holder, self._token, self._paths = lockable, holder, token, paths
        self._held: HeldProcess | None = None

    @property
    def alive(self) -> bool:
        """Whether the lock is held, as far as is known here: a lost connection frees it."""
        return self._held is not None and self._held.alive

    def take(self) -> None:
        """Take the lock. Raises Locked, which names the holder, HostError and Unreachable.

        Ends a remote shell whose controller is certainly dead, and one of a lost connection of this run.
        """
        token, holder = self._try("")
        if token and (token == self._token or (holder is not None and holder.is_dead())):
            token, holder = self._try(token)
        if self._held is None:
            fix = f"wait for it, or stop it; if its machine is gone, sshd on {self.host} frees the lock when it notices"
            what = f"cluster {self.cluster} is in use by {holder or UNKNOWN}, says {self.host}"
            raise Locked(what, f"{fix} (ClientAliveInterval in its sshd_config)", holder.verb if holder else "")

    def free(self) -> None:
        """Free the lock. Idempotent."""
        if self._held is not None:
            self._held.close()
            self._held = None

    def _try(self, dead: str) -> tuple[str, LockHolder | None]:
        """Try once; return the token and the description of another holder, as far as they can be read."""
        who = f"{self._token} {self._holder.to_text()}"
        places = (self._paths.shared, self._paths.socket, self._paths.own)
        held = self.lockable.hold(["sh", "-c", _SCRIPT, "sh", self.cluster, who, dead, *places])
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
        reason = held.error_text()
        what = f"the lock of cluster {self.cluster} could not be taken: {reason or 'the host gave no reason'}"
        fix = "look at the permissions and the disk of that directory there" if reason else ""
        raise self.lockable.explain(HostError(self.host, what, fix))

    def _in_the_way(self, words: str) -> HostError:
        owner, kind, path = [*words.split(" ", 2), "", ""][:3]  # a host may print anything
        purpose = (
            "the directory for locks of the engine's users" if kind == "directory" else "a file that can be locked"
        )
        clean = "".join(character if character.isprintable() else "?" for character in path)
        what = f"{clean} of user {printable(owner)} is not {purpose}"
        return HostError(self.host, what, "have its owner or root remove it there")


class LocalHost:
    """This machine as a host of the cluster, which other controllers may reach over SSH."""

    def __init__(self, host: str) -> None:
        self.host = host

    def explain(self, error: HostError) -> HostError:
        """See LockableHost."""
        return error

    def hold(self, argv: Sequence[str]) -> "ChildProcess":
        """See LockableHost."""
        # In its own session: it ends its whole process group, and must not receive Ctrl-C.
        process = subprocess.Popen(
            held_command(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        return ChildProcess(process)


class ChildProcess:
    """A child process that ends with this one, when its standard input is closed."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        assert process.stdout is not None
        self.first_line = process.stdout.readline().decode(errors="replace").rstrip("\n")

    @property
    def alive(self) -> bool:
        """See HeldProcess."""
        return self._process.poll() is None

    def error_text(self) -> str:
        """See HeldProcess. Call it after the process has ended."""
        assert self._process.stderr is not None
        return one_line(self._process.stderr.read().decode(errors="replace"))

    def close(self) -> None:
        """See HeldProcess."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(timeout=_LIMIT)
