"""pydantic's complaints about a mapping as problems, each at the line that causes it and with an example of the cure."""

import difflib
import json
import re
from collections.abc import Collection, Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tfprov.errors import Position, Problem, one_line, shown
from tfprov.model.node import Items, Mapping, Node, Scalar, find

Path = tuple[str | int, ...]

_TYPES = ("str", "int", "float", "bool", "word", "mapping", "[key]")
_LIMITS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


@dataclass(frozen=True)
class ErrorExplainer:
    """Speaks of `model`, whose values the user writes under `name`.

    `inside` says whether messages repeat that name, as they do of a playbook, which has no templates; `whole` is the fix
    where a key has no example of its own.
    `others` are words that other tools have for what some keys mean.
    """

    model: type[BaseModel]
    name: str
    whole: str
    inside: bool = True
    others: AbstractMapping[str, str] = field(default_factory=dict)

    def problems(self, node: Mapping, error: ValidationError, told: Collection[Position] = ()) -> Iterator[Problem]:
        """One problem per value, without those at the places in `told`.

        pydantic reports a value that may be of several types once for each of them.
        """
        by_path: dict[Path, list[ErrorDetails]] = {}
        for item in error.errors(include_url=False):
            by_path.setdefault(tuple(_steps(node, item["loc"])), []).append(item)
        for path, items in by_path.items():
            if find(node, path)[0].at in told or (
                items[0]["type"] == "missing" and path[-1] in self.misspelt_keys(node, path[:-1])
            ):
                continue
            own = next((item for item in items if item["type"] == "value_error"), items[0])
            single = own["type"] == "value_error" or len(items) == 1
            value, at = find(node, path)
            text = value.text if isinstance(value, Scalar) else ""
            if isinstance(value, Scalar) and value.secret and own["type"] != "extra_forbidden":
                yield Problem(
                    at, f"`{self.called(path)}` is secret, and not one line of text", "encrypt one line of text"
                )
                continue
            what, fix = self.explain(own, path, text) if single else self.no_single(own, path)
            yield Problem(at, what, fix)

    def explain(self, error: ErrorDetails, path: Path, text: str = "") -> tuple[str, str]:
        """Return what is wrong and the fix; `text` is what was written."""
        kind, value, limits, name = error["type"], error["input"], error.get("ctx", {}), self.called(path)
        if kind == "missing":
            return f"`{name}` is missing under `{self.name}:`", self.example(path)
        if kind == "extra_forbidden":
            return f"unknown key `{name}`", self.known(path)
        if kind == "value_error":
            return f"`{name}` {limits['error']}", getattr(limits["error"], "fix", "") or self.example(path)
        if kind == "literal_error":
            expected = limits["expected"].replace("'", "`")
            close = _close(value, re.findall("`([^`]+)`", expected), {}) if isinstance(value, str) else []
            fix = f"did you mean `{close[0]}`?" if close else self.example(path)
            return f"`{name}` must be {expected}, not {describe_value(value)}", fix
        for limit in limits.keys() & _LIMITS.keys():
            return f"`{name}` must be {_LIMITS[limit]} {limits[limit]:.10g}, not {shown(value)}", self.example(path)
        if kind == "too_short":
            return f"`{name}` must not be empty", self.example(path)
        return self.mistyped(error, path, text)

    def mistyped(self, error: ErrorDetails, path: Path, text: str) -> tuple[str, str]:
        """Speak of a value of another type than the setting's."""
        value, wanted, name = error["input"], _wanted(error["type"]), self.called(path)
        if wanted is None:
            return f"`{name}`: {one_line(error['msg'])}", self.example(path)
        if wanted == "text" and isinstance(value, int | float):
            return f"`{name}` must be text, not `{shown(text or value)}`", f'quote it: "{shown(text or value)}"'
        if wanted in ("a whole number", "a number") and isinstance(value, str) and value.isdigit():
            fix = f"write {shown(value)} without quotes{'' if self.inside else ', or end a template in `| int`'}"
            return f"`{name}` must be a number, not text", fix
        if wanted in ("a whole number", "a number") and isinstance(value, str) and (number := _number_of(value)):
            return f"`{name}` must be {wanted}, not {describe_value(value)}", f"write {number}"
        return f"`{name}` must be {wanted}, not {describe_value(value)}", self.example(path)

    def no_single(self, error: ErrorDetails, path: Path) -> tuple[str, str]:
        """Speak of a value that fits none of several single types."""
        fix = 'write "" for an empty text' if error["input"] is None else self.example(path)
        return f"`{self.called(path)}` must be a single value, not {describe_value(error['input'])}", fix

    def called(self, path: Path) -> str:
        """Return the dotted name of the value at `path`; an item of a list has the list's."""
        steps = [self.name, *path] if self.inside or not path else list(path)
        words = [f"[{step}]" if isinstance(step, int) else "." + (step or "''") for step in steps]
        return shown("".join(words).removeprefix("."))

    def known(self, path: Path) -> str:
        """Say which keys there are beside the unknown one at the end of `path`."""
        names = sorted(_names(self.at(path[:-1])))
        if close := _close(str(path[-1]), names, self.others):
            return f"did you mean `{close[0]}`?"
        return f"known keys: {', '.join(names)}" if names else self.whole

    def misspelt_keys(self, node: Mapping, path: Path = ()) -> set[str]:
        """Return the keys that were probably meant by unknown ones in what stands at `path` in `node`."""
        names, here = _names(self.at(path)), find(node, path)[0]
        keys = here.entries if isinstance(here, Mapping) else {}
        return {name for key in keys if key not in names for name in _close(key, names, self.others)}

    def at(self, path: Path) -> type[BaseModel] | None:
        """Return the model of what stands at `path`, or None where keys are the user's own."""
        model: type[BaseModel] | None = self.model
        for step in path:
            if isinstance(step, str):
                field = _names(model).get(step)
                model = model_of(field.annotation) if field else None
        return model

    def example(self, path: Path) -> str:
        """Show how a value is written: the example of the innermost key of `path` that has one."""
        for end in range(len(path), 0, -1):
            key = str(path[end - 1])
            field = _names(self.at(path[: end - 1])).get(key)
            if field is not None and field.examples:
                return f"for example `{key}: {to_flow_yaml(field.examples[0])}`"
        return self.whole


def _close(key: str, names: Collection[str], others: AbstractMapping[str, str]) -> list[str]:
    """Return the name that `key` was probably meant to be: in another notation, in another tool's words, or misspelt."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])|-", "_", key).lower()
    for name in (plain, others.get(plain, "")):
        if name in names:
            return [name]
    return difflib.get_close_matches(key, list(names), n=1, cutoff=0.7)  # at 0.6, `colour` would mean `cluster`


def model_of(annotation: Any) -> type[BaseModel] | None:
    """Return the model that `annotation` speaks of: itself, the items of a list, or one that may be left out."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (model_of(inner) for inner in get_args(annotation)) if get_origin(annotation) is not dict else ()
    return next((model for model in found if model is not None), None)


def _names(model: type[BaseModel] | None) -> dict[str, Any]:
    if model is None:
        return {}
    return {field.alias or name: field for name, field in model.model_fields.items()}


def to_flow_yaml(example: Any) -> str:
    """Return `example` as it would stand in the file, in YAML's flow style."""
    if isinstance(example, list):
        return f"[{', '.join(map(to_flow_yaml, example))}]"
    if isinstance(example, dict):
        return f"{{{', '.join(f'{key}: {to_flow_yaml(value)}' for key, value in example.items())}}}"
    if isinstance(example, str) and not example.replace(".", "", 1).isdigit():
        return example
    return json.dumps(example)


def _steps(node: Node, location: Path) -> Iterator[str | int]:
    """Drop what pydantic adds to a path where a value may have several types: the name of each."""
    for step in location:
        below = _child(node, step)
        if below is None and (str(step) in _TYPES or str(step).startswith("function-")):
            continue
        node = below or node
        yield step


def _child(node: Node, step: str | int) -> Node | None:
    """Return what stands in `node` under the key or the index `step`, or None."""
    if isinstance(node, Mapping):
        return node.entries.get(str(step))
    if isinstance(node, Items) and isinstance(step, int) and step < len(node.items):
        return node.items[step]
    return None


def _number_of(text: str) -> str | None:
    """Return the number that `text` is elsewhere and not in YAML 1.1: `1e3`, `0o17`."""
    try:
        number = float(text) if re.fullmatch(r"[-+]?[0-9]{0,9}\.?[0-9]{1,9}[eE][-+]?[0-9]{1,2}", text) else int(text, 0)
    except ValueError:
        return None
    return f"{number:.10g}" if isinstance(number, float) else shown(number)


def _wanted(kind: str) -> str | None:
    forms = {
        "string": "text",
        "list": "a list",
        "dict": "a mapping",
        "model": "a mapping",
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
        "finite": "a finite number",
    }
    return next((form for word, form in forms.items() if kind.startswith(word)), None)


def describe_value(value: object) -> str:
    """Return what stands instead of what should."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    if value == "":
        return "an empty text"
    if value in ("true", "false"):
        return f'the text "{value}"'
    return "nothing" if value is None else f"`{shown(value)}`"
