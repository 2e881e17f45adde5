"""Vault passwords from files, password scripts and a prompt, named by the options and variables of Ansible."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import EISDIR
from os import strerror
from os.path import expanduser, expandvars
from pathlib import Path
from stat import S_ISDIR

from tfprov.errors import InvalidInput, Position, Problem, printable

DEFAULT_VAULT_ID = "default"
"""The vault id of a password without one."""
_PROMPT = ("prompt", "prompt_ask_vault_pass")
"""Ansible's names for a prompt as the source of a password."""
_CLIENT = "-client"
"""Suffix of password scripts that take `--vault-id`."""
_LONGEST = 65536
IDENTITIES, PASSWORD_FILE = "ANSIBLE_VAULT_IDENTITY_LIST", "ANSIBLE_VAULT_PASSWORD_FILE"
"""Ansible's environment variables."""

CONFIGURED = "vault_password_file"
"""The setting in ansible.cfg."""

OPTIONS = ("--vault-id", "--vault-password-file", "--ask-vault-pass")

Ask = Callable[[str], str]
"""Prompts in the terminal and returns the answer, without echo."""


@dataclass(frozen=True)
class PasswordSource:
    """Where a password comes from: `option` named `location`, for `vault_id`."""

    option: str
    vault_id: str
    location: str

    @property
    def path(self) -> Path | None:
        """The password file or script; None for a prompt."""
        # Path.expanduser() raises for a user who does not exist.
        return None if self.location in _PROMPT else Path(expanduser(expandvars(self.location)))  # noqa: PTH111


@dataclass(frozen=True)
class Passwords:
    """The sources of vault passwords on the command line; nothing is read before a password is needed.

    `configured` is the password file of an ansible.cfg.
    """

    ids: Sequence[str] = ()
    files: Sequence[str] = ()
    prompt: bool = False
    ask: Ask | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    configured: str | None = None

    def sources(self) -> Iterator[PasswordSource]:
        """Yield the sources in the order in which Ansible tries them."""
        listed = self.environ.get(IDENTITIES, "")
        yield from (_parse_vault_id(IDENTITIES, name.strip()) for name in listed.split(",") if name.strip())
        yield from (_parse_vault_id(OPTIONS[0], name) for name in self.ids)
        yield from (PasswordSource(OPTIONS[1], DEFAULT_VAULT_ID, file) for file in self.files)
        if named := self.environ.get(PASSWORD_FILE):
            yield PasswordSource(PASSWORD_FILE, DEFAULT_VAULT_ID, named)
        elif self.configured:
            yield PasswordSource(CONFIGURED, DEFAULT_VAULT_ID, self.configured)
        if self.prompt:
            yield PasswordSource(OPTIONS[2], DEFAULT_VAULT_ID, _PROMPT[1])

    def check(self) -> None:
        """Raise InvalidInput for a file of the command line that is not there, also if no password is needed; as Ansible.

        Nothing is read or run. What the environment and an ansible.cfg name is for other inventories, too.
        """
        for source in self.sources():
            if source.option in OPTIONS and (path := source.path) is not None:
                with _file_errors(source):
                    if S_ISDIR(path.stat().st_mode):
                        raise IsADirectoryError(EISDIR, strerror(EISDIR))

    def read(self, source: PasswordSource) -> bytes:
        """Return the password of `source`; InvalidInput if there is none."""
        if (path := source.path) is None:
            return self._prompt(source)
        with _file_errors(source):
            executable = path.stat().st_mode & 0o111 and not path.is_dir()
            password = _run_script(source, path) if executable else _read_file(path)
        if not password:
            raise _source_error(source, "has no password in it", "write the password into it")
        return password

    def _prompt(self, source: PasswordSource) -> bytes:
        if self.ask is None:
            what, fix = "there is no terminal to ask in", "use --vault-password-file"
            raise InvalidInput([Problem(Position(source.option), what, fix)])
        names_vault_id = source.location == "prompt"
        if answer := self.ask(f"Vault password ({source.vault_id})" if names_vault_id else "Vault password").strip():
            return answer.encode()
        raise InvalidInput([Problem(Position(source.option), "no password was entered", "type it when asked")])


@contextmanager
def _file_errors(source: PasswordSource) -> Iterator[None]:
    """Raise errors of the file of `source` as InvalidInput."""
    if not source.location:
        raise InvalidInput([Problem(Position(source.option), "an empty name", "give the file with the password")])
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = str(error) if isinstance(error, ValueError) else error.strerror or str(error)
        missing = isinstance(error, FileNotFoundError)
        what = "does not exist" if missing else f"cannot be read: {reason.lower()}"
        raise _source_error(source, what, "correct the path" if missing else "give a readable file") from None


def _parse_vault_id(option: str, text: str) -> PasswordSource:
    vault_id, at, location = text.partition("@")
    return PasswordSource(option, (vault_id or DEFAULT_VAULT_ID) if at else DEFAULT_VAULT_ID, location if at else text)


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:  # a pipe has no size: `--vault-password-file <(pass show vault)`
        return file.read(_LONGEST).strip()


def _run_script(source: PasswordSource, path: Path) -> bytes:
    """Return what the password script at `path` prints; its prompts and errors go to the terminal."""
    import subprocess  # noqa: PLC0415  most inventories need no password

    arguments = ["--vault-id", source.vault_id] if path.stem.endswith(_CLIENT) else []
    try:
        result = subprocess.run([str(path.absolute()), *arguments], stdout=subprocess.PIPE, check=False)
    except OSError as error:
        what = f"is executable, but cannot be run: {(error.strerror or str(error)).lower()}"
        raise _source_error(source, what, "remove its executable bit if it holds the password itself") from None
    if result.returncode:
        raise _source_error(source, f"ended with exit code {result.returncode}", "run it by itself to see why")
    return result.stdout.strip(b"\r\n")


def _source_error(source: PasswordSource, what: str, fix: str) -> InvalidInput:
    return InvalidInput([Problem(Position(source.option), f"`{printable(source.location)}` {what}", fix)])
