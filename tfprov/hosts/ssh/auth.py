"""Logging in: which keys are offered, in which order, and what is said when all are refused. Nobody is ever prompted.

sshd ends a connection after six refused keys (MaxAuthTries), so the keys that the user named come first, and the usual
ones of ~/.ssh only where none is named. An encrypted key is used through the agent that holds it.
"""

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko

from tfprov.errors import Unreachable, one_line
from tfprov.hosts.ssh.client_config import Hop
from tfprov.hosts.ssh.known_hosts import fingerprint

_USUAL = ("id_ed25519", "id_ecdsa", "id_rsa")
_KEY, _PASSWORD, _INTERACTIVE = "publickey", "password", "keyboard-interactive"
_SHOWN = 4
"""How many of the keys that were tried a message names."""


@dataclass
class Login:
    """Logs in to `hop`; `tried` says what was offered, `unusable` which files could not be, and why."""

    hop: Hop
    password: str | None
    tried: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    accepted: list[str] = field(default_factory=list)
    """The methods that the server accepts, once it has refused one because of its kind."""

    def authenticate(self, transport: Any) -> None:
        """Log in over `transport`. Raises Unreachable, with the user and the keys tried. Called by paramiko."""
        agent = _Agent()
        try:
            for method, label, attempt in self._ways(transport, agent.keys):
                if self._is_possible(method) and self._accepted(label, attempt, transport):
                    return
        finally:
            agent.close()
        raise self._refused(f"it accepts only: {', '.join(self.accepted)}" if self.accepted else "")

    def _is_possible(self, method: str) -> bool:
        """Whether the server may accept `method`, as far as it has told."""
        falls_back = method == _PASSWORD and not self.hop.authentications and _INTERACTIVE in self.accepted
        return not self.accepted or method in self.accepted or falls_back

    def _accepted(self, label: str, attempt: Callable[[], Sequence[str]], transport: Any) -> bool:
        self.tried.append(label)
        try:
            further = attempt()
        except paramiko.BadAuthenticationType as error:
            self.accepted = list(error.allowed_types)
            return False
        except paramiko.AuthenticationException as error:
            if not transport.is_active():
                raise self._refused("it closed the connection after so many tries") from error
            if "timeout" in str(error).lower():
                raise self._refused(f"no answer within {transport.auth_timeout:g} s") from error
            return False
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise self._refused(one_line(str(error)) or "it closed the connection") from error
        if further:
            raise self._refused(f"it asks for more than a key: {', '.join(further)}")
        return True

    def _ways(self, transport: Any, agent: Sequence[Any]) -> Iterator[tuple[str, str, Callable[[], Sequence[str]]]]:
        """Yield what to try: the method, its name in messages, and the attempt."""
        user, password = self.hop.user, self.password
        if not self.hop.authentications:
            yield from self._with_keys(transport, agent)
            if password is not None:
                yield _PASSWORD, "the password", lambda: transport.auth_password(user, password, fallback=True)
        for method in dict.fromkeys(self.hop.authentications):
            if method == _KEY:
                yield from self._with_keys(transport, agent)
            elif method == _PASSWORD and password is not None:
                yield method, "the password", lambda: transport.auth_password(user, password, fallback=False)
            elif method == _INTERACTIVE and password is not None:
                yield method, f"the password ({method})", lambda: transport.auth_interactive(user, self._answers)

    def _answers(self, _title: str, _instructions: str, questions: Sequence[Any]) -> list[str]:
        """Answer every question of a server with the password, as paramiko does where a server asks for one."""
        return [self.password or ""] * len(questions)

    def _with_keys(
        self, transport: Any, agent: Sequence[Any]
    ) -> Iterator[tuple[str, str, Callable[[], Sequence[str]]]]:
        offered = set()
        for label, key in self._keys(agent):
            if key.asbytes() not in offered:
                offered.add(key.asbytes())
                yield _KEY, label, lambda key=key: transport.auth_publickey(self.hop.user, key)  # type: ignore[misc]

    def _keys(self, agent: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        for path in self.hop.key_files:
            yield from self._from_file(path, agent)
        if not self.hop.identities_only:
            yield from ((f"{fingerprint(key.asbytes())} of the agent", key) for key in agent)
        for name in () if self.hop.key_files else _USUAL:
            path = Path("~/.ssh", name).expanduser()
            if path.exists():
                yield from self._from_file(path, agent)

    def _from_file(self, path: Path, agent: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        try:
            yield str(path), paramiko.PKey.from_path(path.expanduser())
        except FileNotFoundError:
            self.unusable.append(f"{path} does not exist")
        except OSError as error:
            self.unusable.append(f"{path}: {error.strerror}")
        except (TypeError, paramiko.PasswordRequiredException):  # TypeError is cryptography's word for "encrypted"
            public = _public(path)
            held = [key for key in agent if key.asbytes() == public]
            yield from ((f"{path} of the agent", key) for key in held)
            if not held:
                self.unusable.append(f"{path} is encrypted and not in the agent (ssh-add)")
        except Exception as error:
            self.unusable.append(f"{path} is no private key that can be used ({one_line(str(error))[:80]})")

    def _refused(self, reason: str = "") -> Unreachable:
        tried = self.tried[:_SHOWN] + ([f"{len(self.tried) - _SHOWN} more"] if len(self.tried) > _SHOWN else [])
        what = f"{self.hop.user}@{self.hop.endpoint} refused {', '.join(tried)}"
        if not tried:
            methods = self.hop.authentications
            kind = "key" if not methods or _KEY in methods else "password"
            what = f"no {kind} for {self.hop.user}@{self.hop.endpoint}"
        because = "".join(f" ({text})" for text in (reason, *self.unusable) if text)
        fix = "correct `ansible_user` or `ansible_ssh_private_key_file`, or add the key there with ssh-copy-id"
        return Unreachable(self.hop.label, what + because, fix)


class _Agent:
    """The keys of ssh-agent; none when there is no agent, or it does not answer."""

    def __init__(self) -> None:
        self._agent: Any = None
        self.keys: Sequence[Any] = ()
        try:
            self._agent = paramiko.Agent()
            self.keys = self._agent.get_keys()
        except (paramiko.SSHException, OSError, EOFError):
            self.keys = ()

    def close(self) -> None:
        if self._agent is not None:
            self._agent.close()


def _public(path: Path) -> bytes:
    """Return the data of the public key beside a private one; nothing when there is none."""
    try:
        return base64.b64decode(Path(f"{path.expanduser()}.pub").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return b""
