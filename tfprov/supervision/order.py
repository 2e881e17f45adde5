"""What a supervisor needs to go on with a run: the options of the command line, and passwords that it gets by a pipe."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tfprov.history.run_dir import RunDir
from tfprov.paths import working_directory
from tfprov.vault.redaction import mentions_secret

VaultSecret = tuple[str, bytes]


@dataclass(frozen=True)
class SupervisorOrder:
    """The options of `run` with which a supervisor loads the cluster. `directory` is the working directory of `run`.

    `begun` is when the time of the `deadline` began, in seconds since 1970. `secrets` are vault passwords by their ids:
    they are sent through a pipe, and never stored.
    """

    directory: str
    sources: Sequence[str]
    begun: float
    extra: Sequence[str] = ()
    limit: str | None = None
    forks: int | None = None
    accept_new: bool = False
    lookup_dirs: Sequence[str] = ()
    vault_ids: Sequence[str] = ()
    vault_files: Sequence[str] = ()
    discard: bool = False
    may_start: bool = False
    partial: bool = False
    resume: bool = False
    drain: bool = False
    """Whether to take the cluster down, and no more: the terminal was closed while `run` did so."""
    only_running: bool = False
    """Whether to refuse a training that has ended: `up` began it, and nobody asked to take its cluster down."""
    left_out: bool = False
    """Whether variables of `-e` with names of secrets were not stored."""
    secrets: Sequence[VaultSecret] = field(default=(), repr=False)

    @classmethod
    def of_options(cls, options: Mapping[str, Any], sources: Sequence[str], begun: float) -> "SupervisorOrder":
        """Return the order for the options of the command line."""
        return cls(
            str(working_directory()),
            tuple(sources),
            begun,
            tuple(options.get("extra") or ()),
            options.get("limit"),
            options.get("forks"),
            bool(options.get("accept_new")),
            tuple(options.get("lookup_dirs") or ()),
            tuple(options.get("vault_ids") or ()),
            tuple(options.get("vault_files") or ()),
            bool(options.get("discard")),
            partial=bool(options.get("partial")),
            resume=bool(options.get("resume")),
        )

    def to_json(self) -> str:
        """Return the text for the pipe, with the passwords."""
        secrets = [[name, base64.b64encode(password).decode()] for name, password in self.secrets]
        return json.dumps({**asdict(self), "secrets": secrets})

    @classmethod
    def from_json(cls, text: str | bytes) -> "SupervisorOrder":
        """Parse an order. Raises ValueError."""
        try:
            data = json.loads(text)
            secrets = tuple((name, base64.b64decode(password)) for name, password in data.pop("secrets", ()))
            return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data}, secrets=secrets)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"no order of a supervisor: {error}") from None

    def store(self, directory: RunDir) -> None:
        """Store the order in the run's directory, for a supervisor that is to follow after a restart of this machine.

        Variables of `-e` with names of secrets are left out; a path, as in `-e @vars.yml`, is not secret.
        """
        public = [text for text in self.extra if text.startswith("@") or not mentions_secret(text)]
        later = replace(self, may_start=False, drain=False)  # by then, tasks may run that are not to be taken down
        stored = replace(later, extra=public, secrets=(), left_out=len(public) < len(self.extra))
        data = {name: value for name, value in asdict(stored).items() if name != "secrets"}
        directory.write(directory.supervisor_file, data)

    @classmethod
    def stored(cls, directory: RunDir) -> "SupervisorOrder | None":
        """Return the stored order of a run; None without one."""
        try:
            data = directory.read(directory.supervisor_file)
            return cls.from_json(json.dumps(data))
        except (OSError, ValueError):
            return None
