"""Parses the arguments for `ssh` in an inventory: those that say how to connect, and none that weaken security."""

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from tfprov.errors import printable
from tfprov.model.validators import InvalidValue
from tfprov.settings.connection_vars import check_key_file, expand_path

_KEYWORDS = {"J": "ProxyJump", "i": "IdentityFile", "p": "Port", "l": "User", "F": "-F"}
"""Short options and their ssh_config(5) keywords; `-F`, the file itself, has none."""
_WITH_VALUE = "BbcDEeFIiJLlmOoPpQRSWw"
"""Short options of `ssh` with a value."""
_FAMILIES = {"4": "inet", "6": "inet6"}
"""Short options for an address family."""
_WITHOUT_EFFECT = "CqvxTaA"
"""Short options without effect here: compression, verbosity, and forwarding that never happens."""
_IGNORED = (
    "batchmode", "compression", "controlmaster", "controlpath", "controlpersist", "forwardagent", "forwardx11", "loglevel",
    "requesttty", "serveralivecountmax", "serveraliveinterval", "tcpkeepalive",
)  # fmt: skip
"""Keywords without effect here: there is one connection per host, with a keepalive of its own."""
_JUMP = re.compile(r"(ssh://)?([^@\s,/]+@)?(\[[0-9A-Fa-f:.]+\]|[^\s:,@/\[\]-][^\s:,@/\[\]]*)(:[0-9]{1,5})?/?")
_ELSEWHERE = "put it into ~/.ssh/config"


class RefusedArgument(ValueError):
    """An unsupported argument, with the fix."""

    def __init__(self, what: str, fix: str = _ELSEWHERE) -> None:
        super().__init__(what)
        self.fix = fix


@dataclass
class SshArgs:
    """Parsed arguments of `ssh`; as there, the first of several values wins.

    `refused` has the unsupported arguments; their messages never repeat a command, which may hold a password.
    """

    port: int | None = None
    user: str | None = None
    key_files: list[Path] = field(default_factory=list)
    proxy_jump: str | None = None
    proxy_command: str | None = None
    ssh_config: Path | None = None
    known_hosts: tuple[Path, ...] = ()
    accept_new: bool | None = None
    timeout: float | None = None
    identities_only: bool | None = None
    authentications: tuple[str, ...] = ()
    host_key_algorithms: str | None = None
    address_family: str | None = None
    refused: list[RefusedArgument] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Parse further arguments, in the syntax of a command line."""
        try:
            words = _words(text)
        except ValueError:
            self.refused.append(RefusedArgument("holds a quote that is never closed", "close it"))
            return
        for keyword, value in self._options(iter(words)):
            try:
                self._set(keyword, value)
            except RefusedArgument as refused:
                self.refused.append(refused)

    def _options(self, words: Iterator[str]) -> Iterator[tuple[str, str]]:
        """Yield each option as an ssh_config keyword and its value."""
        for word in words:
            if not word.startswith("-") or word in ("-", "--"):
                self.refused.append(
                    RefusedArgument("holds a word that belongs to no option", "quote what has blanks in it")
                )
                continue
            letters = word[1:]
            while letters and letters[0] in (*_WITHOUT_EFFECT, *_FAMILIES):
                self.address_family = _FAMILIES.get(letters[0], self.address_family)  # as in ssh, the last one wins
                letters = letters[1:]
            if not letters:
                continue
            letter, value = letters[0], letters[1:]
            if letter not in _WITH_VALUE:
                self.refused.append(_unsupported(f"-{letter}"))
                continue
            value = value or next(words, "")
            yield _split_option(value) if letter == "o" else (_KEYWORDS.get(letter, f"-{letter}"), value)

    def _set(self, keyword: str, value: str) -> None:
        name = keyword.lower()
        if name in _IGNORED:
            return
        if name not in _SETTERS:
            raise _unsupported(keyword)
        if not value.strip():
            raise RefusedArgument(f"gives no value for `{printable(keyword)}`", "add one, or remove it")
        _SETTERS[name](self, value)


@lru_cache
def _words(text: str) -> list[str]:
    return shlex.split(text)  # the hosts of a large inventory share their arguments


def _set_port(args: SshArgs, value: str) -> None:
    if not re.fullmatch("[0-9]{1,5}", value) or not 1 <= int(value) <= 65535:
        raise RefusedArgument(f"has the port `{printable(value)}`", "give one from 1 to 65535")
    args.port = args.port or int(value)


def _set_user(args: SshArgs, value: str) -> None:
    args.user = args.user or value


def _set_key_file(args: SshArgs, value: str) -> None:
    try:
        check_key_file("-i", _unquote(value)[0])
    except InvalidValue as error:
        raise RefusedArgument(f"has {error}", error.fix) from None
    args.key_files.append(expand_path(_unquote(value)[0]))


def _set_jump(args: SshArgs, value: str) -> None:
    if value.lower() != "none" and not all(map(_JUMP.fullmatch, value.split(","))):
        raise RefusedArgument(f"has the gateway `{printable(value)}`", "write `[user@]host[:port]`")
    if args.proxy_command is None:
        args.proxy_jump = args.proxy_jump or value


def _set_command(args: SshArgs, value: str) -> None:
    if (args.proxy_jump or "none").lower() == "none":
        args.proxy_command = args.proxy_command or value


def _set_config(args: SshArgs, value: str) -> None:
    # `none` is OpenSSH's word for no file, and equals an empty one.
    path = expand_path("/dev/null" if value.lower() == "none" else value)
    try:
        problem = "" if path.exists() else "does not exist"
    except OSError as error:  # a name that is too long, or a directory that may not be searched
        problem = f"cannot be read: {(error.strerror or str(error)).lower()}"
    if problem:
        raise RefusedArgument(f"names the file `{printable(value)}`, which {problem}", "correct the path behind `-F`")
    args.ssh_config = args.ssh_config or path


def _set_known_hosts(args: SshArgs, value: str) -> None:
    if any(name.lower() in ("/dev/null", "none") for name in _unquote(value)):
        raise RefusedArgument(
            f"has UserKnownHostsFile={printable(value)}, which stores no host keys", "remove it, or name a file"
        )
    args.known_hosts = args.known_hosts or tuple(expand_path(name) for name in _unquote(value))


def _set_strictness(args: SshArgs, value: str) -> None:
    if value.lower() in ("no", "off"):
        what = f"has StrictHostKeyChecking={printable(value)}, which accepts any host key"
        raise RefusedArgument(what, "use `StrictHostKeyChecking=accept-new`")
    if value.lower() not in ("yes", "ask", "accept-new"):
        raise RefusedArgument(f"has StrictHostKeyChecking={printable(value)}", "use `StrictHostKeyChecking=accept-new`")
    args.accept_new = value.lower() == "accept-new" if args.accept_new is None else args.accept_new


def _set_timeout(args: SshArgs, value: str) -> None:
    if not re.fullmatch("[0-9]{1,4}", value) or not 1 <= int(value) <= 3600:
        raise RefusedArgument(f"has ConnectTimeout={printable(value)}", "give a number of seconds from 1 to 3600")
    args.timeout = args.timeout or float(value)


def _set_identities_only(args: SshArgs, value: str) -> None:
    if value.lower() not in ("yes", "no", "true", "false"):
        raise RefusedArgument(f"has IdentitiesOnly={printable(value)}", "use `yes` or `no`")
    only = value.lower() in ("yes", "true")
    args.identities_only = only if args.identities_only is None else args.identities_only


def _set_authentications(args: SshArgs, value: str) -> None:
    methods = tuple(word.strip().lower() for word in value.split(","))
    if not any(method in _METHODS for method in methods):
        what = f"has PreferredAuthentications={printable(value)}, and tfprov supports none of them"
        raise RefusedArgument(what, f"name one of {', '.join(_METHODS)}")
    args.authentications = args.authentications or methods


def _set_host_key_algorithms(args: SshArgs, value: str) -> None:
    if not re.fullmatch(r"[+^-]?[\w@.*?-]+(,[\w@.*?-]+)*", value, re.ASCII):
        raise RefusedArgument(
            f"has HostKeyAlgorithms={printable(value)}", "for example `HostKeyAlgorithms=ssh-ed25519`"
        )
    args.host_key_algorithms = args.host_key_algorithms or value


def _set_address_family(args: SshArgs, value: str) -> None:
    if value.lower() not in ("any", "inet", "inet6"):
        raise RefusedArgument(f"has AddressFamily={printable(value)}", "use `inet`, `inet6` or `any`")
    args.address_family = args.address_family or value.lower()


_METHODS = ("publickey", "password", "keyboard-interactive")
_SETTERS: dict[str, Callable[[SshArgs, str], None]] = {
    "port": _set_port,
    "user": _set_user,
    "identityfile": _set_key_file,
    "proxyjump": _set_jump,
    "proxycommand": _set_command,
    "-f": _set_config,
    "userknownhostsfile": _set_known_hosts,
    "stricthostkeychecking": _set_strictness,
    "connecttimeout": _set_timeout,
    "identitiesonly": _set_identities_only,
    "preferredauthentications": _set_authentications,
    "hostkeyalgorithms": _set_host_key_algorithms,
    "addressfamily": _set_address_family,
}


def _split_option(text: str) -> tuple[str, str]:
    """Return the name and value of `-o`: `Name=value`, or `Name value`."""
    match = re.match(r"([A-Za-z0-9]*)\s*=?\s*(.*)", text.strip(), re.DOTALL)
    assert match is not None, "the pattern matches an empty text"
    return match[1] or "-o", match[2]


def _unquote(value: str) -> list[str]:
    try:
        return shlex.split(value) or [value]
    except ValueError:
        return [value]


def _unsupported(option: str) -> RefusedArgument:
    return RefusedArgument(f"has the option `{printable(option)}`, which is not supported here")
