"""Authenticate to an SSH server with keys, the agent or a password, without prompting.

sshd closes a connection after six refused keys (MaxAuthTries), so configured keys are offered first, and the default keys
of ~/.ssh only if none is configured. An encrypted key is used through the agent that holds it.
"""

import base64
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import paramiko
from paramiko.agent import AgentSSH

from tfprov.errors import Unreachable, one_line
from tfprov.hosts.ssh.client_config import Hop
from tfprov.hosts.ssh.known_hosts import fingerprint

_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_PUBLICKEY, _PASSWORD, _INTERACTIVE = "publickey", "password", "keyboard-interactive"
_MAX_NAMED_ATTEMPTS = 4
"""Attempts that an error message lists."""


class Agent(AgentSSH):
    """The `keys` of the ssh-agent at the socket `path`; empty if there is no agent or it does not respond."""

    def __init__(self, path: str = "") -> None:
        super().__init__()
        self.keys: Sequence[Any] = ()
        if not path:
            return
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
            # paramiko's own Agent knows no other socket than that of SSH_AUTH_SOCK.
            self._connect(connection)  # type: ignore[attr-defined]
            self.keys = self.get_keys()
        except (paramiko.SSHException, OSError, EOFError):
            connection.close()

    def close(self) -> None:
        """Close the connection to it."""
        self._close()  # type: ignore[attr-defined]


def agent_socket(identity_agent: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of the socket that an IdentityAgent names; empty for no agent."""
    if identity_agent == "none":
        return ""
    variable = re.fullmatch(r"\$?(SSH_AUTH_SOCK)|\$(\w+)", identity_agent)
    return environ.get(variable[1] or variable[2], "") if variable else identity_agent


@dataclass
class Login:
    """Logs in to `hop`. `tried` lists the attempts, `unusable` the key files that failed to load, with the reason."""

    hop: Hop
    password: str | None
    tried: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    server_methods: list[str] = field(default_factory=list)
    """Methods the server accepts; empty until it rejects a method."""
    agent: Callable[[str], Agent] = Agent

    def authenticate(self, transport: Any) -> None:
        """Log in over `transport`. Raises Unreachable, naming the user and the keys tried. Called by paramiko."""
        agent = self.agent(agent_socket(self.hop.identity_agent))
        try:
            for method, label, authenticate in self._attempts(transport, agent.keys):
                if self._may_succeed(method) and self._try(label, authenticate, transport):
                    return
        finally:
            agent.close()
        raise self._refusal(f"it accepts only: {', '.join(self.server_methods)}" if self.server_methods else "")

    def _may_succeed(self, method: str) -> bool:
        """Whether the server may accept `method`, judged by the methods it has listed."""
        falls_back = method == _PASSWORD and not self.hop.authentications and _INTERACTIVE in self.server_methods
        return not self.server_methods or method in self.server_methods or falls_back

    def _try(self, label: str, authenticate: Callable[[], Sequence[str]], transport: Any) -> bool:
        self.tried.append(label)
        try:
            remaining_methods = authenticate()
        except paramiko.BadAuthenticationType as error:
            self.server_methods = list(error.allowed_types)
            return False
        except paramiko.AuthenticationException as error:
            if not transport.is_active():
                raise self._refusal("it closed the connection after too many attempts") from error
            if "timeout" in str(error).lower():
                raise self._refusal(f"no answer within {transport.auth_timeout:g} s") from error
            return False
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise self._refusal(one_line(str(error)) or "it closed the connection") from error
        if remaining_methods:
            raise self._refusal(f"it also requires: {', '.join(remaining_methods)}")
        return True

    def _attempts(self, transport: Any, agent: Sequence[Any]) -> Iterator[tuple[str, str, Callable[[], Sequence[str]]]]:
        """Yield each attempt in order: SSH method, label for messages, function that authenticates."""
        user, password = self.hop.user, self.password
        if not self.hop.authentications:
            yield from self._key_attempts(transport, agent)
            if password is not None:
                yield _PASSWORD, "the password", lambda: transport.auth_password(user, password, fallback=True)
        for method in dict.fromkeys(self.hop.authentications):
            if method == _PUBLICKEY:
                yield from self._key_attempts(transport, agent)
            elif method == _PASSWORD and password is not None:
                yield method, "the password", lambda: transport.auth_password(user, password, fallback=False)
            elif method == _INTERACTIVE and password is not None:
                yield method, f"the password ({method})", lambda: transport.auth_interactive(user, self._answer_prompts)

    def _answer_prompts(self, _title: str, _instructions: str, questions: Sequence[Any]) -> list[str]:
        """Answer every keyboard-interactive prompt with the password, as paramiko does."""
        return [self.password or ""] * len(questions)

    def _key_attempts(
        self, transport: Any, agent: Sequence[Any]
    ) -> Iterator[tuple[str, str, Callable[[], Sequence[str]]]]:
        offered = set()
        for label, key in self._private_keys(agent):
            if key.asbytes() not in offered:
                offered.add(key.asbytes())
                yield _PUBLICKEY, label, lambda key=key: transport.auth_publickey(self.hop.user, key)  # type: ignore[misc]

    def _private_keys(self, agent: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        for path in self.hop.key_files:
            yield from self._load_key(path, agent)
        if not self.hop.identities_only:
            yield from ((f"{fingerprint(key.asbytes())} of the agent", key) for key in agent)
        for name in () if self.hop.key_files else _DEFAULT_KEYS:
            path = Path("~/.ssh", name).expanduser()
            if path.exists():
                yield from self._load_key(path, agent)

    def _load_key(self, path: Path, agent: Sequence[Any]) -> Iterator[tuple[str, Any]]:
        try:
            yield str(path), _read_key(path.expanduser())
        except FileNotFoundError:
            yield from self._agent_key(path, agent, f"{path} does not exist")
        except OSError as error:
            self.unusable.append(f"{path}: {error.strerror}")
        except (TypeError, paramiko.PasswordRequiredException):  # cryptography raises TypeError for an encrypted key
            yield from self._agent_key(path, agent, f"{path} is encrypted and not in the agent (ssh-add)")
        except Exception as error:
            problem = f"{path} is not a usable private key ({one_line(str(error))[:80]})"
            yield from self._agent_key(path, agent, problem)

    def _agent_key(self, path: Path, agent: Sequence[Any], problem: str) -> Iterator[tuple[str, Any]]:
        """Yield the agent's key that belongs to a public key in `path` or PATH.pub; without one, remember the problem."""
        public = _public_key(path), _public_key(Path(f"{path}.pub"))
        in_agent = [key for key in agent if key.asbytes() in public]
        yield from ((f"{path} of the agent", key) for key in in_agent)
        if not in_agent:
            self.unusable.append(problem)

    def _refusal(self, reason: str = "") -> Unreachable:
        omitted = len(self.tried) - _MAX_NAMED_ATTEMPTS
        tried = self.tried[:_MAX_NAMED_ATTEMPTS] + ([f"{omitted} more"] if omitted > 0 else [])
        message = f"{self.hop.user}@{self.hop.endpoint} refused {', '.join(tried)}"
        if not tried:
            methods = self.hop.authentications
            kind = "key" if not methods or _PUBLICKEY in methods else "password"
            message = f"no {kind} for {self.hop.user}@{self.hop.endpoint}"
        reasons = "".join(f" ({text})" for text in (reason, *self.unusable) if text)
        fix = "correct `ansible_user` or `ansible_ssh_private_key_file`, or add the key there with ssh-copy-id"
        return Unreachable(self.hop.label, message + reasons, fix)


def _read_key(path: Path) -> Any:
    """Return the private key in a file, which many hosts share; an unchanged file is read once."""
    status = path.stat()
    return _parse_key(path, (status.st_ino, status.st_mtime_ns, status.st_size))


@lru_cache(maxsize=8)
def _parse_key(path: Path, _version: tuple[int, int, int]) -> Any:
    return paramiko.PKey.from_path(path)


def _public_key(path: Path) -> bytes:
    """Return the public key in a file; b"" if it is missing or malformed."""
    try:
        return base64.b64decode(path.expanduser().read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return b""
