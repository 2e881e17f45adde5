"""What `--set` can say: every option has a type, a default and a line of help, and a value of a wrong type is refused."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from tfprov.errors import Usage, printable
from tfprov.model.field_types import check_image_name
from tfprov.model.validators import InvalidValue

Value = str | int | bool | tuple[str, ...] | Mapping[str, str]
"""What an option holds: text, a number, a switch, a list of texts, or texts by name."""

Values = Mapping[str, Value]
"""The value of every option of a target."""


@dataclass(frozen=True)
class Option:
    """One thing that `--set name=value` can say.

    `read` makes a value of the text on the command line; it raises ValueError with what the text must be.
    """

    name: str
    default: Value
    help: str
    read: Callable[[str], Value]


def text(value: str) -> str:
    """Read a text that says something."""
    if not value.strip() or any(not mark.isprintable() for mark in value):
        raise ValueError("one line of text, and not empty")
    return value


def switch(value: str) -> bool:
    """Read true or false."""
    if value not in ("true", "false"):
        raise ValueError("`true` or `false`")
    return value == "true"


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return what reads a whole number from `least` to `most`."""

    def read(value: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", value) or not least <= int(value) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(value)

    return read


def choice(*words: str) -> Callable[[str], str]:
    """Return what reads one of `words`."""

    def read(value: str) -> str:
        if value not in words:
            raise ValueError(" or ".join(f"`{word}`" for word in words))
        return value

    return read


def matching(pattern: str, words: str) -> Callable[[str], str]:
    """Return what reads a text that is `words`, which is what `pattern` says as a regular expression."""
    compiled = re.compile(pattern)

    def read(value: str) -> str:
        if not compiled.fullmatch(value):
            raise ValueError(words)
        return value

    return read


def listed(one: Callable[[str], str]) -> Callable[[str], tuple[str, ...]]:
    """Return what reads a list, with commas between what `one` reads."""
    return lambda value: tuple(one(item.strip()) for item in value.split(","))


def named(name: Callable[[str], str], one: Callable[[str], str]) -> Callable[[str], Mapping[str, str]]:
    """Return what reads `name=value` pairs, with commas between them."""

    def read(value: str) -> Mapping[str, str]:
        pairs = [item.strip().partition("=") for item in value.split(",")]
        if not all(equals for _, equals, _ in pairs):
            raise ValueError("`name=value`, and commas between several")
        return {name(key): one(said) for key, _, said in pairs}

    return read


def image(value: str) -> str:
    """Read the name of an image in a registry."""
    try:
        return check_image_name(value)
    except InvalidValue as error:
        what = str(error)
        is_form = what.startswith("must be ")
        raise ValueError(what.removeprefix("must be ") if is_form else "the name of an image in a registry") from None


def settle(target: str, options: Mapping[str, Option], texts: Sequence[str]) -> Values:
    """Return the value of every option, from the `name=value` texts of `--set`; Usage says what is wrong with them."""
    values = {option.name: option.default for option in options.values()}
    for item in texts:
        name, equals, value = item.partition("=")
        if not equals:
            raise Usage(f"`--set {printable(item)}` says nothing of a value", "write `--set name=value`")
        if name not in options:
            close = get_close_matches(name, options, n=1)
            fix = f"did you mean `{close[0]}`?" if close else f"it has {', '.join(options)}"
            raise Usage(f"`{target}` has no option `{printable(name)}`", fix)
        try:
            values[name] = options[name].read(value)
        except ValueError as error:
            raise Usage(f"`--set {name}` must be {error}, not `{printable(value)}`", options[name].help) from None
    return values
