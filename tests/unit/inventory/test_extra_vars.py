"""The forms of `-e`, and that what they say wins."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.memory_cluster import make_context
from tfprov.errors import InvalidInput
from tfprov.model.node import plain
from tfprov.settings.load import extra_vars

INVENTORY = """
all:
  vars:
    steps: 100
    tfprov: {cluster: law, command: [python], flags: {steps: "{{ steps }}", lr: 0.1}}
worker: {hosts: {localhost: {tfprov: {flags: {lr: 0.2}}}}}
"""


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ([], {}),
        (["a=1"], {"a": "1"}),
        (["a=1 b=two"], {"a": "1", "b": "two"}),
        (["a='one two'"], {"a": "one two"}),
        (["a="], {"a": ""}),
        (["a=b=c"], {"a": "b=c"}),
        (["{a: 1, b: [x]}"], {"a": 1, "b": ["x"]}),
        (['{"a": {"b": null}}'], {"a": {"b": None}}),
        (["  {a: 1}"], {"a": 1}),
        (["a.b.c=1"], {"a": {"b": {"c": "1"}}}),
        (["a=1", "a=2"], {"a": "2"}),
        (["tfprov.flags.steps=2000"], {"tfprov": {"flags": {"steps": 2000}}}),
        (["tfprov.flags.on=true"], {"tfprov": {"flags": {"on": True}}}),
        (["tfprov.env.A=", "tfprov.env.B=x"], {"tfprov": {"env": {"A": "", "B": "x"}}}),
        (["tfprov.command='[python, x.py]'"], {"tfprov": {"command": ["python", "x.py"]}}),
    ],
)
def test_each_form_is_read(options: list[str], values: dict[str, Any]) -> None:
    assert plain(extra_vars(options)) == values


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "vars.yml"
    file.write_text("a: 1\nb: {c: 2}\n")
    assert plain(extra_vars([f"@{file}", "a=2"])) == {"a": "2", "b": {"c": 2}}


@pytest.mark.parametrize("option", ["a", "=1", "a='", "[1]", "@/nowhere.yml", "{a: 1", "", "a=1 b"])
def test_what_is_no_variable_is_an_error(option: str) -> None:
    with pytest.raises(InvalidInput):
        extra_vars([option])


@pytest.mark.parametrize("name", ["vars.yml", "./vars", "/etc/vars.json"])
def test_a_file_without_its_mark_is_told_how_to_write_it(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"write `-e @{name}` for a file"):
        extra_vars([name])


def flags(*options: str) -> dict[str, Any]:
    found: dict[str, Any] = make_context(INVENTORY, options).wanted[0].spec["flags"]
    return found


def test_extra_variables_win_over_all_others() -> None:
    assert flags() == {"steps": "100", "lr": "0.2"}
    assert flags("steps=7") == {"steps": "7", "lr": "0.2"}
    assert flags("tfprov.flags.lr=0.3") == {"steps": "100", "lr": "0.3"}
    assert flags('{tfprov: {flags: {lr: 0.30, "on": null}}}') == {"steps": "100", "lr": "0.30", "on": None}
