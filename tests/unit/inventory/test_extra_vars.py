"""The forms of `-e`, and their precedence."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.memory_cluster import make_context
from tfprov.errors import InvalidInput
from tfprov.model.yaml_node import plain
from tfprov.settings.load import parse_extra_vars

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
        (["a=''"], {"a": ""}),
        (["a='x'y"], {"a": "'x'y"}),
        (["a='x y' b=c\\"], {"a": "x y", "b": "c\\"}),
        ([r'a="x\" y"'], {"a": 'x" y'}),
        ([r"a=\x22x\x22 b=\x22x\\\x22"], {"a": "x", "b": '"x\\"'}),
        (["a=x\n b=y"], {"a": "x", "b": "y"}),
        (["a=}} b={{ c d }}"], {"a": "}}", "b": "{{ c d }}"}),
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
def test_every_form_of_extra_vars_is_parsed(options: list[str], values: dict[str, Any]) -> None:
    assert plain(parse_extra_vars(options)) == values


def test_extra_vars_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "vars.yml"
    file.write_text("a: 1\nb: {c: 2}\n")
    assert plain(parse_extra_vars([f"@{file}", "a=2"])) == {"a": "2", "b": {"c": 2}}


FORMS = "write `-e name=value`, `-e '{name: value}'` or `-e @file.yml`"
REFUSED = {
    **{word: f"-e: error: `{word}` is not a variable; {FORMS}"
       for word in ("a", "=1", "[1]", "", "a.=1", ".a=1", "a..b=1", "1a=1", "a-b=1")},
    "a=1 b": f"-e: error: `b` is not a variable; {FORMS}",
    "a" + ".b" * 32 + "=1": f"-e: error: `a{'.b' * 28}...` is not a variable; {FORMS}",
    "password=a b": f"-e: error: `…` is not a variable; {FORMS}",
    "x.yaml": "-e: error: `x.yaml` is not a variable; write `-e @x.yaml` for a file",
    "/x": "-e: error: `/x` is not a variable; write `-e @/x` for a file",
    "a='": "-e: error: `a='`: no closing quotation; close the quote",
    "a={{ x": "-e: error: `a={{ x`: no closing brace; write `}}` behind a template",
    "tfprov.flags=[a, b c=1": (
        "-e tfprov.flags: error: a blank ends the value: `[a,`; "
        "quote it within the shell's quotes: `-e \"tfprov.flags='…'\"`"
    ),
    "tfprov.flags=[1": (
        "-e tfprov.flags: error: a bracket without its `]`, or a comma missing behind it; add `]` or `,`"
    ),
    "{a: 1": "-e:1:1: error: a bracket without its `}`, or a comma missing behind it; add `}` or `,`",
    " @ ": "-e: error: `@` names no file; write `-e @vars.yml`",
    "@/nowhere.yml": "/nowhere.yml: error: no such file; check the path after -e @",
    "@/": "/: error: is a directory, not a file; give a file in it",
}  # fmt: skip


def test_malformed_extra_vars_are_refused_with_their_fix() -> None:
    for option, message in REFUSED.items():
        with pytest.raises(InvalidInput) as caught:
            parse_extra_vars([option])
        assert str(caught.value) == message
    assert parse_extra_vars(["a" + ".b" * 31 + "=1"]).entries, "the deepest that YAML may have, too"


@pytest.mark.parametrize("escape", [r"\N{NO SUCH}", r"\N{x}", r"\U99999999"])
def test_an_escape_that_stands_for_no_character_is_refused(escape: str) -> None:
    with pytest.raises(
        InvalidInput, match=r"^-e: error: `a=.*` has an escape that stands for no character; write `\\\\` for"
    ):
        parse_extra_vars([f"a='{escape}'"])
    with pytest.raises(InvalidInput, match=r"^-e: error: `…` has an escape"):
        parse_extra_vars([f"password=x b{escape.replace(' ', '')}"])


@pytest.mark.parametrize("name", ["vars.yml", "./vars", "/etc/vars.json"])
def test_a_file_name_without_the_at_sign_is_refused_with_the_fix(name: str) -> None:
    with pytest.raises(InvalidInput, match=f"write `-e @{name}` for a file"):
        parse_extra_vars([name])


def test_a_key_needs_no_quotes_for_what_yaml_reads_otherwise() -> None:
    assert flags("tfprov.flags.no=7", "tfprov.flags.on=8") == {"steps": "100", "lr": "0.2", "no": "7", "on": "8"}


def flags(*options: str) -> dict[str, Any]:
    spec_flags: dict[str, Any] = make_context(INVENTORY, options).wanted[0].spec["flags"]
    return spec_flags


def test_extra_vars_win_over_all_other_variables() -> None:
    assert flags() == {"steps": "100", "lr": "0.2"}
    assert flags("steps=7") == {"steps": "7", "lr": "0.2"}
    assert flags("tfprov.flags.lr=0.3") == {"steps": "100", "lr": "0.3"}
    assert flags('{tfprov: {flags: {lr: 0.30, "on": null}}}') == {"steps": "100", "lr": "0.30", "on": None}
