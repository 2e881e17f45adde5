"""What `-v` prints: the connections, commands and requests of the hosts layer, with their times."""

import logging
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from tfprov.errors import mask_secrets

F = TypeVar("F", bound=Callable[..., Any])
LOGGER = "tfprov.hosts"
"""The logger of what is done on hosts: INFO for what changes something there, DEBUG for what only asks."""


class _Lines(logging.Handler):
    """Writes each record as one line to standard error, by way of the printer while that has a live line."""

    def __init__(self) -> None:
        super().__init__()
        self.write: Callable[[str], None] = _to_standard_error

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; secrets are masked."""
        self.write(mask_secrets(record.getMessage()))


def _to_standard_error(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


_HANDLER = _Lines()


def is_on() -> bool:
    """Whether `-v` stands on the command line."""
    return logging.getLogger(LOGGER).isEnabledFor(logging.INFO)


def write_by(write: Callable[[str], None] | None) -> None:
    """Have `write` print the lines from here on; None for standard error itself."""
    _HANDLER.write = write or _to_standard_error


def verbose_option() -> Callable[[F], F]:
    """Return the option `-v`, which may be repeated."""
    return click.option(
        "-v",
        "--verbose",
        count=True,
        callback=_set,
        help="Say more: every line of a plan; commands and changes on hosts, with their times; -vv also every question, "
        "and tracebacks.",
    )


def _set(context: click.Context, _option: click.Parameter, count: int) -> int:
    logger = logging.getLogger(LOGGER)
    logger.propagate = False
    if count and not context.resilient_parsing:
        logger.setLevel(logging.INFO if count == 1 else logging.DEBUG)
        if _HANDLER not in logger.handlers:
            logger.addHandler(_HANDLER)
        context.call_on_close(lambda: logger.setLevel(logging.WARNING))
    return count
