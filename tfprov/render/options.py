"""Options of `--set`: each has a parser, a default and a line of help."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tfprov.errors import TfprovError, Usage, combine_errors, printable, suggest
from tfprov.model.field_types import check_image_name
from tfprov.model.validators import InvalidValue

Value = str | int | bool | tuple[str, ...] | Mapping[str, str]
"""An option's value: text, a number, a boolean, a list of texts, or a mapping of texts."""

Values = Mapping[str, Value]
"""The value of every option of a target."""


@dataclass(frozen=True)
class Option:
    """An option of `--set name=value`.

    `read` parses the text of the command line; its ValueError describes a valid text.
    """

    name: str
    default: Value
    help: str
    read: Callable[[str], Value]


def text(value: str) -> str:
    """Parse a non-empty line of text."""
    if not value.strip() or any(not character.isprintable() for character in value):
        raise ValueError("one line of text, and not empty")
    return value


def boolean(value: str) -> bool:
    """Parse true or false."""
    if value not in ("true", "false"):
        raise ValueError("`true` or `false`")
    return value == "true"


def integer(least: int, most: int) -> Callable[[str], int]:
    """Return a parser of whole numbers from `least` to `most`."""

    def read(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", value) or not least <= int(value) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(value)

    return read


def choice(*words: str) -> Callable[[str], str]:
    """Return a parser that accepts one of `words`."""

    def read(value: str) -> str:
        if value not in words:
            raise ValueError(" or ".join(f"`{word}`" for word in words))
        return value

    return read


def matching(pattern: str, description: str) -> Callable[[str], str]:
    """Return a parser of texts that match the regular expression `pattern`; `description` is the same in words."""
    compiled = re.compile(pattern)

    def read(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(description)
        return value

    return read


def list_of(item: Callable[[str], str]) -> Callable[[str], tuple[str, ...]]:
    """Return a parser of comma-separated items."""
    return lambda value: tuple(item(part.strip()) for part in value.split(","))


def pairs_of(name: Callable[[str], str], item: Callable[[str], str]) -> Callable[[str], Mapping[str, str]]:
    """Return a parser of comma-separated `name=value` pairs."""

    def read(value: str) -> Mapping[str, str]:
        pairs = [part.strip().partition("=") for part in value.split(",")]
        if not all(equals for _, equals, _ in pairs):
            raise ValueError("`name=value`, or several separated by commas")
        return {name(key): item(text) for key, _, text in pairs}

    return read


def image(value: str) -> str:
    """Parse the name of an image in a registry."""
    try:
        return check_image_name(value)
    except InvalidValue as error:
        message = str(error).partition(", not ")[0]  # the caller adds the value
        says_valid_form = message.startswith("must be ")
        valid_form = message.removeprefix("must be ") if says_valid_form else "the name of an image in a registry"
        raise ValueError(valid_form) from None


def parse_settings(target: str, options: Mapping[str, Option], settings: Sequence[str]) -> Values:
    """Return the value of every option of `target`. `settings` are the `name=value` texts of `--set`.

    Raises Usage for an invalid one, Several for more.
    """
    values = {option.name: option.default for option in options.values()}
    errors: list[TfprovError] = []
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            errors.append(Usage(f"`--set {printable(setting)}` has no value", "write `--set name=value`"))
        elif name not in options:
            fix = suggest(name, options, f"it has {', '.join(options)}")
            errors.append(Usage(f"`{target}` has no option `{printable(name)}`", fix))
        else:
            try:
                values[name] = options[name].read(value)
            except ValueError as error:
                errors.append(Usage(f"`--set {name}` must be {error}, not `{printable(value)}`", options[name].help))
    if errors:
        raise combine_errors(errors)
    return values
