"""The REST API of the model server without HTTP and without TensorFlow: paths, requests, answers."""

import json
from typing import Any

import pytest

from tfprov.runtime.serving import rest
from tfprov.runtime.serving.rest import BadRequest, Target


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/v1/models/digits", Target("digits", None, "")),
        ("/v1/models/digits/", Target("digits", None, "")),
        ("/v1/models/digits?token=1", Target("digits", None, "")),
        ("/v1/models/digits/versions/12", Target("digits", 12, "")),
        ("/v1/models/digits/metadata", Target("digits", None, "metadata")),
        ("/v1/models/digits:predict", Target("digits", None, "predict")),
        ("/v1/models/digits/versions/3:predict", Target("digits", 3, "predict")),
    ],
)
def test_paths_name_a_model_a_version_and_a_verb(path: str, target: Target) -> None:
    assert rest.parse_path(path) == target


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/", "Malformed request: /"),
        ("/v1/models/", "Malformed request"),
        ("/v1/models/a/b/c", "Malformed request"),
        ("/v1/models/a/versions/-1", "Malformed request"),
        ("/v1/models/a:classify", "use TensorFlow Serving for it"),
    ],
)
def test_other_paths_are_refused(path: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message) as refusal:
        rest.parse_path(path)
    assert refusal.value.status == 404


def parse(request: Any, *names: str) -> rest.Prediction:
    return rest.parse_prediction(json.dumps(request).encode(), lambda _signature: list(names))


def test_rows_become_columns() -> None:
    assert parse({"instances": [1, 2]}, "x") == rest.Prediction("serving_default", {"x": [1, 2]}, by_row=True)
    rows = [{"x": [1, 2], "y": "a"}, {"x": [3, 4], "y": "b"}]
    assert parse({"instances": rows}, "x", "y").inputs == {"x": [[1, 2], [3, 4]], "y": ["a", "b"]}
    assert parse({"instances": [{"b64": "AP8="}]}, "x").inputs == {"x": [b"\x00\xff"]}


def test_columns_stay_columns() -> None:
    request = {"inputs": {"x": [[1.0]]}, "signature_name": "other"}
    assert parse(request, "x") == rest.Prediction("other", {"x": [[1.0]]}, by_row=False)
    assert parse({"inputs": 7}, "x").inputs == {"x": 7}
    assert parse({"inputs": {"b64": "YQ=="}}, "x").inputs == {"x": b"a"}


@pytest.mark.parametrize(
    ("request_value", "message"),
    [
        ([], 'either "instances" or "inputs"'),
        ({"instances": [1], "inputs": [1]}, 'either "instances" or "inputs"'),
        ({"instances": []}, "a list with a value per row"),
        ({"instances": {"x": 1}}, "a list with a value per row"),
        ({"instances": [1]}, "has several inputs, so name them: x, y"),
        ({"instances": [{"x": 1, "y": 1}, {"x": 1}]}, "the input 'y' is missing"),
        ({"inputs": {"x": 1, "y": 1, "z": 1}}, "no input 'z'; it has x, y"),
        ({"inputs": {"x": {"b64": "?"}, "y": 1}}, "is not base64"),
        ({"inputs": {"x": {"b64": 7}, "y": 1}}, "is not base64"),
        ({"inputs": 1, "signature_name": 7}, "must be a text"),
    ],
)
def test_wrong_requests_are_refused_in_one_line(request_value: Any, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        parse(request_value, "x", "y")


def test_a_body_that_is_no_json_is_refused() -> None:
    for body in (b"", b"{", b"\xff\xfe", b"[" * 100_000):
        with pytest.raises(BadRequest, match="JSON Parse error"):
            rest.parse_prediction(body, lambda _signature: ["x"])


def test_answers_have_the_form_of_the_request() -> None:
    one, two = {"p": [[1.0], [2.0]]}, {"p": [1, 2], "name": [b"a", b"\xff"]}
    assert rest.predictions(one, by_row=True) == {"predictions": [[1.0], [2.0]]}
    assert rest.predictions(one, by_row=False) == {"outputs": [[1.0], [2.0]]}
    assert rest.predictions(two, by_row=True) == {
        "predictions": [{"p": 1, "name": "a"}, {"p": 2, "name": {"b64": "/w=="}}]
    }
    assert rest.predictions(two, by_row=False) == {"outputs": {"p": [1, 2], "name": ["a", {"b64": "/w=="}]}}
    for uneven in ({"p": [1, 2], "q": [1]}, {"p": 1.0}):
        with pytest.raises(BadRequest, match='send "inputs"'):
            rest.predictions(uneven, by_row=True)
