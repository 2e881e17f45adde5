"""The manual page of tfprov, made from its click commands."""

import re
from collections.abc import Iterable, Iterator

import click

from tfprov import __version__
from tfprov.cli.main import tfprov
from tfprov.errors import HUNG_UP, INTERRUPTED, TERMINATED, UNREAD

ENVIRONMENT = (
    ("TFPROV_INVENTORY", "The inventory, where no -i names one."),
    ("NO_COLOR", "Not empty: no colours. --color wins over it."),
    ("XDG_STATE_HOME, XDG_CACHE_HOME", "Where clusters and caches are kept; default: ~/.local/state and ~/.cache."),
    ("ANSIBLE_VAULT_PASSWORD_FILE", "Where the password of ansible-vault is, as for Ansible."),
)
EXIT_CODES = (
    ("0", "Done."),
    ("1", "A host or a task failed. `run` and `wait` end with the chief's own exit code."),
    ("2", "Invalid input: an inventory, an option, an argument."),
    ("3", "Another run holds the cluster's lock."),
    ("4", "A host cannot be reached."),
    (str(HUNG_UP), "The terminal was closed; what runs goes on."),
    (f"{INTERRUPTED}, {TERMINATED}", "Ctrl-C, SIGTERM."),
    (str(UNREAD), "The reader of the output is gone."),
)


def man_page() -> str:
    """Return the page as roff for man(1)."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    summary = (tfprov.help or "").rstrip(".")
    yield f'.TH TFPROV 1 "" "tfprov {__version__}" "User commands"'
    yield from (".SH NAME", f"tfprov \\- {_text(summary[0].lower() + summary[1:])}")
    yield from (".SH SYNOPSIS", ".B tfprov", "[\\fIOPTIONS\\fR] \\fIVERB\\fR [\\fIARGUMENTS\\fR]")
    yield ".SH OPTIONS"
    root = click.Context(tfprov, info_name="tfprov", **tfprov.context_settings)
    yield from _options(root)
    yield ".SH VERBS"
    yield from _commands(root)
    yield ".SH ENVIRONMENT"
    yield from _definitions(ENVIRONMENT)
    yield ".SH EXIT STATUS"
    yield from _definitions(EXIT_CODES)


def _commands(context: click.Context) -> Iterator[str]:
    command = context.command
    assert isinstance(command, click.Group)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None, name
        inner = click.Context(below, parent=context, info_name=name)
        usage = " ".join(below.collect_usage_pieces(inner))
        yield f".SS {_text(inner.command_path.removeprefix('tfprov '))}"
        yield f".B {_text(inner.command_path)}"
        yield _text(usage)
        for paragraph in (below.help or "").split("\n\n"):
            yield from (".PP", *_paragraph(paragraph))
        yield from _options(inner)
        if isinstance(below, click.Group):
            yield from _commands(inner)


def _options(context: click.Context) -> Iterator[str]:
    options = [one for one in context.command.get_params(context) if isinstance(one, click.Option)]
    if context.parent is not None:
        options = [one for one in options if not {"--color", "--help"} & set(one.opts)]  # they stand at the top
    records = [one.get_help_record(context) for one in options]
    yield from _definitions(record for record in records if record is not None)


def _definitions(entries: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, text in entries:
        yield from (".TP", f"\\fB{_text(term)}\\fR", *_paragraph(text))


def _paragraph(text: str) -> Iterator[str]:
    yield _text(re.sub(r"\s+", " ", text.replace("\b", " ")).strip())


def _text(text: str) -> str:
    """Return text as roff shows it: no backslash is an escape, and no line begins with a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga")
    return "\\&" + escaped if escaped[:1] in (".", "'") else escaped
