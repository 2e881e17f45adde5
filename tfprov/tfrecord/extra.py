"""The packages of the extras `data` and `spark`, imported when they are needed."""

from importlib import import_module
from typing import Any

from tfprov.errors import TfprovError


class MissingExtra(TfprovError):
    """A package of an extra is not installed."""


def require(package: str, extra: str = "data") -> Any:
    """Import and return a package of an extra; raises MissingExtra with the command that installs it."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "tfprov":
            raise
        raise MissingExtra(
            f"record files need the package `{error.name}`, which is not installed", f"pip install 'tfprov[{extra}]'"
        ) from error


def load(module: str) -> Any:
    """Import and return a module of `tfprov.tfrecord`; raises MissingExtra."""
    return require(f"tfprov.tfrecord.{module}")
