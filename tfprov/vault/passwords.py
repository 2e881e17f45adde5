"""Where the passwords of ansible-vault come from: files, programs that print them, and a prompt, as Ansible has them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import expandvars
from pathlib import Path

from tfprov.errors import InvalidInput, Position, Problem, shown

DEFAULT_VAULT_ID = "default"
"""The vault id of a password without one."""
_PROMPT = ("prompt", "prompt_ask_vault_pass")
"""Sources that are no files: Ansible's words for asking."""
_CLIENT = "-client"
"""Ends the name of a program that is told for which vault id it is asked."""
_LONGEST = 65536
IDENTITIES, PASSWORD_FILE = "ANSIBLE_VAULT_IDENTITY_LIST", "ANSIBLE_VAULT_PASSWORD_FILE"
"""Variables that Ansible reads as well."""

CONFIGURED = "vault_password_file"
"""The setting of an ansible.cfg."""

OPTIONS = ("--vault-id", "--vault-password-file", "--ask-vault-pass")

Ask = Callable[[str], str]
"""Asks a question in the terminal and returns the answer; what is typed is not shown."""


@dataclass(frozen=True)
class PasswordSource:
    """A place that has a password, as `option` named it; `label` is its vault id."""

    option: str
    label: str
    place: str

    @property
    def path(self) -> Path | None:
        """The file with the password, or the program that prints it; None where it is asked for in the terminal."""
        return None if self.place in _PROMPT else Path(expandvars(self.place)).expanduser()


@dataclass(frozen=True)
class Passwords:
    """What a command line says of vault passwords; nothing is read or asked before a password is needed.

    `configured` is the file that an ansible.cfg names.
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
        yield from (_parse_vault_id(IDENTITIES, one.strip()) for one in listed.split(",") if one.strip())
        yield from (_parse_vault_id(OPTIONS[0], one) for one in self.ids)
        yield from (PasswordSource(OPTIONS[1], DEFAULT_VAULT_ID, file) for file in self.files)
        if named := self.environ.get(PASSWORD_FILE):
            yield PasswordSource(PASSWORD_FILE, DEFAULT_VAULT_ID, named)
        elif self.configured:
            yield PasswordSource(CONFIGURED, DEFAULT_VAULT_ID, self.configured)
        if self.prompt:
            yield PasswordSource(OPTIONS[2], DEFAULT_VAULT_ID, _PROMPT[1])

    def read(self, source: PasswordSource) -> bytes:
        """Return the password of `source`; InvalidInput says why there is none."""
        if (path := source.path) is None:
            return self._asked(source)
        try:
            executable = path.stat().st_mode & 0o111 and not path.is_dir()
            found = _run_script(source, path) if executable else _read_file(path)
        except (OSError, ValueError) as error:  # ValueError: a null byte in the name
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            missing = isinstance(error, FileNotFoundError)
            what = "does not exist" if missing else f"cannot be read: {reason.lower()}"
            raise _source_error(source, what, "correct the path" if missing else "give a readable file") from None
        if not found:
            raise _source_error(source, "has no password in it", "write the password into it")
        return found

    def _asked(self, source: PasswordSource) -> bytes:
        if self.ask is None:
            what, fix = "there is no terminal to ask in", "use --vault-password-file"
            raise InvalidInput([Problem(Position(source.option), what, fix)])
        named = source.place == "prompt"
        if answer := self.ask(f"Vault password ({source.label})" if named else "Vault password").strip():
            return answer.encode()
        raise InvalidInput([Problem(Position(source.option), "no password was given", "type it when asked")])


def _parse_vault_id(option: str, text: str) -> PasswordSource:
    label, at, place = text.partition("@")
    return PasswordSource(option, (label or DEFAULT_VAULT_ID) if at else DEFAULT_VAULT_ID, place if at else text)


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:  # a pipe has no size: `--vault-password-file <(pass show vault)`
        return file.read(_LONGEST).strip()


def _run_script(source: PasswordSource, path: Path) -> bytes:
    """Return what the program at `path` prints; its questions and complaints go to the terminal."""
    import subprocess  # noqa: PLC0415  most inventories have nothing encrypted

    told = ["--vault-id", source.label] if path.stem.endswith(_CLIENT) else []
    try:
        done = subprocess.run([str(path.absolute()), *told], stdout=subprocess.PIPE, check=False)
    except OSError as error:
        what = f"is executable, but cannot be run: {(error.strerror or str(error)).lower()}"
        raise _source_error(source, what, "remove its executable bit if it holds the password itself") from None
    if done.returncode:
        raise _source_error(source, f"ended with exit code {done.returncode}", "run it by itself to see why")
    return done.stdout.strip(b"\r\n")


def _source_error(source: PasswordSource, what: str, fix: str) -> InvalidInput:
    return InvalidInput([Problem(Position(source.option), f"`{shown(source.place)}` {what}", fix)])
