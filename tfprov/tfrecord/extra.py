"""The packages of the extra `data`, imported when they are needed."""

from importlib import import_module
from typing import Any

from tfprov.errors import TfprovError


class MissingExtra(TfprovError):
    """A package of the extra `data` is not installed."""


def require(package: str) -> Any:
    """Import and return a package of the extra; raises MissingExtra with the command that installs it."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name and error.name.partition(".")[0] == "tfprov":
            raise
        raise MissingExtra(
            f"record files need the package `{error.name}`, which is not installed", "pip install 'tfprov[data]'"
        ) from error


def load(module: str) -> Any:
    """Import and return a module of `tfprov.tfrecord`; raises MissingExtra."""
    return require(f"tfprov.tfrecord.{module}")
