"""The REST API of TensorFlow Serving, without HTTP: paths, requests and answers as values."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

DEFAULT_SIGNATURE = "serving_default"
_PATH = re.compile(
    r"/v1/models/(?P<model>[^/:?]+)(?:/versions/(?P<version>[0-9]{1,19}))?(?P<end>/metadata|:[a-z]+)?/?(?:\?.*)?"
)


class BadRequest(Exception):
    """A request that cannot be answered; `status` is its HTTP status code."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Target:
    """What a path names: a model, one of its versions or the newest (None), and what to do: "", "metadata" or "predict"."""

    model: str
    version: int | None
    verb: str


def parse_path(path: str) -> Target:
    """Return what `path` names. Raises BadRequest for a path outside of the API."""
    match = _PATH.fullmatch(path)
    if match is None:
        raise BadRequest(f"Malformed request: {path[:200]}", 404)
    verb = (match["end"] or "")[1:]
    if verb not in ("", "metadata", "predict"):
        raise BadRequest(f"this server answers `predict`, and not `{verb}`: use TensorFlow Serving for it", 404)
    return Target(match["model"], int(match["version"]) if match["version"] else None, verb)


@dataclass(frozen=True)
class Prediction:
    """A request to predict: the signature, its inputs by name, and whether they are rows (`instances`)."""

    signature: str
    inputs: Mapping[str, Any]
    by_row: bool


def parse_prediction(body: bytes, input_names: Callable[[str], list[str]]) -> Prediction:
    """Return the request in `body`; `input_names` returns the inputs of a signature. Raises BadRequest.

    `{"instances": [...]}` has one value, or one mapping of inputs, per row; `{"inputs": ...}` has whole tensors.
    """
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"JSON Parse error: {error}") from None
    if not isinstance(request, dict) or ("instances" in request) == ("inputs" in request):
        raise BadRequest('the request needs either "instances" or "inputs"')
    signature = request.get("signature_name", DEFAULT_SIGNATURE)
    if not isinstance(signature, str):
        raise BadRequest('"signature_name" must be a text')
    names = input_names(signature)
    if "inputs" in request:
        return Prediction(signature, _decoded(_columns(request["inputs"], names)), by_row=False)
    return Prediction(signature, _decoded(_rows(request["instances"], names)), by_row=True)


def _columns(inputs: Any, names: list[str]) -> Mapping[str, Any]:
    if isinstance(inputs, dict) and set(inputs) != {"b64"}:
        return _complete(inputs, names)
    return {_only(names): inputs}


def _rows(instances: Any, names: list[str]) -> Mapping[str, Any]:
    if not isinstance(instances, list) or not instances:
        raise BadRequest('"instances" must be a list with a value per row')
    if not all(isinstance(row, dict) and set(row) != {"b64"} for row in instances):
        return {_only(names): instances}
    for row in instances:
        _complete(row, names)
    return {name: [row[name] for row in instances] for name in names}


def _complete(inputs: Mapping[str, Any], names: list[str]) -> Mapping[str, Any]:
    if missing := sorted(set(names) - set(inputs)):
        raise BadRequest(f"the input {missing[0]!r} is missing")
    if unknown := sorted(set(inputs) - set(names)):
        raise BadRequest(f"the signature has no input {unknown[0]!r}; it has {', '.join(names)}")
    return inputs


def _only(names: list[str]) -> str:
    if len(names) != 1:
        raise BadRequest(f"the signature has several inputs, so name them: {', '.join(names)}")
    return names[0]


def _decoded(value: Any) -> Any:
    """Return `value` with each `{"b64": …}` as bytes."""
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {"b64"}:
        return {name: _decoded(item) for name, item in value.items()}
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise BadRequest('the value of "b64" is not base64') from None


def predictions(outputs: Mapping[str, Any], *, by_row: bool) -> dict[str, Any]:
    """Return the answer of `predict` for `outputs`, tensors as nested lists, by name. A single output goes without name.

    Raises BadRequest for rows where an output has no or another number of rows.
    """
    columns = {name: encoded(value) for name, value in outputs.items()}
    single = next(iter(columns.values())) if len(columns) == 1 else None
    if not by_row:
        return {"outputs": columns if single is None else single}
    sizes = {len(value) if isinstance(value, list) else -1 for value in columns.values()}
    if len(sizes) != 1 or -1 in sizes:
        raise BadRequest('the outputs have no common first dimension: send "inputs" instead of "instances"')
    if single is not None:
        return {"predictions": single}
    names = list(columns)
    return {"predictions": [dict(zip(names, row)) for row in zip(*columns.values())]}


def encoded(value: Any) -> Any:
    """Return a nested list for JSON: bytes as text, or as `{"b64": …}` where they are no UTF-8."""
    if isinstance(value, list):
        return [encoded(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    return value


def to_json(answer: Mapping[str, Any]) -> bytes:
    """Return an answer as JSON; NaN and infinities as the words that TensorFlow Serving and Python's json write."""
    return json.dumps(answer, allow_nan=True).encode()


def status(version: int, state: str = "AVAILABLE", error: str = "") -> dict[str, Any]:
    """Return the entry of a version in the answer to a question for its state."""
    code = "UNKNOWN" if error else "OK"
    return {"version": str(version), "state": state, "status": {"error_code": code, "error_message": error}}


def tensor_info(dtype: int, shape: list[int | None] | None) -> dict[str, Any]:
    """Return the metadata of a tensor: `dtype` is TensorFlow's number of its type, -1 the size of an open dimension."""
    if shape is None:
        return {"dtype": dtype, "tensor_shape": {"dim": [], "unknown_rank": True}}
    sizes = [str(-1 if size is None or math.isnan(size) else size) for size in shape]
    return {
        "dtype": dtype,
        "tensor_shape": {"dim": [{"size": size, "name": ""} for size in sizes], "unknown_rank": False},
    }
