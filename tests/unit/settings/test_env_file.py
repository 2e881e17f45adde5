"""`env_file` in docker's format, `!env`, and secrets of `lookup('env', …)`."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.command_output import run_command
from tests.support.memory_cluster import make_context
from tfprov.engine.artifacts import never_code
from tfprov.errors import InvalidInput, mask_secrets
from tfprov.settings.load import load

INVENTORY = """\
all:
  vars:
    tfprov:
      cluster: linear
      command: [python, -V]
      env_file: ENV_FILE
      env: {OWN: env, X: "5"}
  children:
    ps: {hosts: {localhost: }}
    worker: {hosts: {localhost: }, vars: {tfprov: {env: {X: worker}}}}
"""


WRITE = "write `NAME=value`, one a line"
INSTEAD = "put the values under `env:` with `ansible-vault encrypt_string`"


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def environment(files: Mapping[str, str], setting: str = "./a.env", role: str = "worker") -> dict[str, object]:
    """Return `env` of a role, with files of variables beside the inventory."""
    for name, text in files.items():
        Path(name).write_text(text)
    Path("inventory.yml").write_text(INVENTORY.replace("ENV_FILE", setting))
    _, roles = load(Path("inventory.yml"))
    return next(dict(one.values.env) for one in roles if one.role == role)


def test_the_format_is_dockers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_HERE", "here")
    monkeypatch.delenv("NOT_HERE", raising=False)
    text = """\ufeff# a comment
  # another
A=1
QUOTED="a b" 'c'
SHELL_WORDS=$HOME `id` $(id) {{ x }}
EQUALS=a=b=c
EMPTY=
TRAILING=a\x20\x20
  INDENTED=x
FROM_HERE
NOT_HERE
HASH=a # b
UMLAUT=ä
WINDOWS=w\r
"""
    assert environment({"a.env": text}, role="ps") == {
        "A": "1", "QUOTED": "\"a b\" 'c'", "SHELL_WORDS": "$HOME `id` $(id) {{ x }}", "EQUALS": "a=b=c", "EMPTY": "",
        "TRAILING": "a  ", "INDENTED": "x", "FROM_HERE": "here", "HASH": "a # b", "UMLAUT": "ä", "WINDOWS": "w",
        "OWN": "env", "X": "5",
    }  # fmt: skip


def test_precedence() -> None:
    files = {"a.env": "OWN=file\nX=file\nA=a\nB=a\n", "b.env": "B=b\n"}
    assert environment(files, "[./a.env, ./b.env]") == {"OWN": "env", "X": "worker", "A": "a", "B": "b"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("A=1\nexport B=2\n",
         f"a.env:2:1: error: `export` is a command of a shell, and no shell reads this file; {WRITE}"),
        ("B C=2\n", f"a.env:1:1: error: `B C` is no name of a variable; {WRITE}"),
        ("  s3cret-value-without-name\n\n", f"a.env:1:3: error: a line without `=` that is no name of a variable; {WRITE}"),
        ("=x\n", f"a.env:1:1: error: `` is no name of a variable; {WRITE}"),
        ("A=\0\n", "a.env:1:1: error: a null byte, which no environment variable can have; remove it"),
        ("$ANSIBLE_VAULT;1.1;AES256\n31\n",
         f"a.env:1:1: error: encrypted with ansible-vault, which an env_file cannot be; {INSTEAD}"),
        ("TF_CONFIG=x\n", "a.env:1:1: error: `env.TF_CONFIG` is set by tfprov for every task; remove it"),
        ("A=" + "x" * 1_000_000, "a.env: error: larger than 1,000,000 bytes; split it into several files"),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named_and_its_value_is_not_repeated(text: str, error: str, work: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        environment({"a.env": text})
    assert [str(problem).replace(f"{work}/", "") for problem in caught.value.problems] == [error]
    assert "s3cret" not in str(caught.value)


def test_a_value_whose_name_sounds_secret_is_masked_in_messages() -> None:
    environment({"a.env": "API_KEY=only-in-this-file\nPLAIN=also-in-this-file\n"})
    assert mask_secrets("-- only-in-this-file --") == "-- ****** --"
    assert mask_secrets("-- also-in-this-file --") == "-- also-in-this-file --"


def test_a_file_of_the_largest_size_is_read() -> None:
    assert environment({"a.env": "A=" + "x" * 999_998})["A"] == "x" * 999_998


def test_a_file_that_is_not_there_is_named_where_it_is_set() -> None:
    Path("dir.env").mkdir()
    for setting, problem in (
        ("./gone.env", "`gone.env` does not exist; correct `env_file`"),
        ("~nobody-here/a.env", "`~nobody-here/a.env` does not exist; correct `env_file`"),
        ("./dir.env", "`dir.env` is a directory, not a file; give a file in it"),
    ):
        with pytest.raises(InvalidInput) as caught:
            environment({}, setting)
        assert str(caught.value) == f"inventory.yml:6:17: error: {problem}"


def test_the_files_are_no_code() -> None:
    environment({"a.env": "A=1\n"})
    _, roles = load(Path("inventory.yml"))
    assert Path("a.env").resolve() in {path.resolve() for path in never_code(Path("inventory.yml"), roles)}


SECRETS = {
    "WANDB": "wandb-{{ secret }}-value", "HF_TOKEN": "lookup-secret-value", "MODEL_API_KEY": "key-secret-value",
    "FILE_PASSWORD": "file-secret-value",
}  # fmt: skip
FROM_ENVIRONMENT = """\
all:
  vars:
    tfprov:
      cluster: linear
      command: [python, -V]
      env_file: ./a.env
      env: {TAGGED: !env WANDB, LOOKED: "{{ lookup('env', 'HF_TOKEN') }}", PLAIN: "{{ lookup('env', 'PLAIN') }}",
            OPENS: "{{ lookup('env', 'MODEL_API_KEY') }}", EXPANDED: "{{ 'x-${MODEL_API_KEY}' | expandvars }}"}
  children:
    ps: {hosts: {localhost: }}
    worker: {hosts: {localhost: }}
"""


def test_a_secret_from_the_environment_is_in_no_plan_spec_or_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**SECRETS, "PLAIN": "plain-value"}.items():
        monkeypatch.setenv(name, value)
    Path("a.env").write_text("FILE_PASSWORD\n")
    Path("inventory.yml").write_text(FROM_ENVIRONMENT)
    context = make_context(FROM_ENVIRONMENT.replace("env_file: ./a.env", f"env_file: {Path('a.env').resolve()}"))
    worker = next(one for one in context.wanted if one.task.name == "worker/0")
    assert {name: worker.env[name] for name in ("TAGGED", "LOOKED", "OPENS", "FILE_PASSWORD", "PLAIN")} == {
        "TAGGED": "wandb-{{ secret }}-value", "LOOKED": "lookup-secret-value", "OPENS": "key-secret-value",
        "FILE_PASSWORD": "file-secret-value", "PLAIN": "plain-value",
    }  # fmt: skip
    assert worker.env["EXPANDED"] == "x-key-secret-value"
    assert worker.secret == {"TAGGED", "LOOKED", "OPENS", "EXPANDED", "FILE_PASSWORD"}
    spec = json.dumps(worker.spec) + " ".join(worker.argv)
    assert "plain-value" in spec
    outputs = [run_command(capsys, *words) for words in (
        ("plan",), ("plan", "--json"), ("inventory", "list"), ("inventory", "host", "localhost"),
        ("inventory", "explain", "localhost"), ("render", "compose"),
    )]  # fmt: skip
    for text in (spec, *(one.out + "\n".join(one.lines) for one in outputs)):
        assert not [value for value in SECRETS.values() if value in text]
    assert all(one.code == 0 for one in outputs[:5])
    assert all(mask_secrets(f"-- {value} --") == "-- ****** --" for value in SECRETS.values())


@pytest.mark.parametrize(
    ("tag", "error"),
    [
        (
            "!env GONE",
            "the environment variable GONE is not set; `export GONE=…` before this, or take the value from a vault",
        ),
        (
            "!env BLANK",
            "the environment variable BLANK is empty; `export BLANK=…` before this, or take the value from a vault",
        ),
        ("!env", "`!env` names no environment variable; write `!env NAME`"),
        ("!env A-B", "`!env A-B` names no environment variable; write `!env NAME`"),
        ("!env [A]", "the tag `!env` is not allowed here; write a plain value"),
    ],
)
def test_what_env_cannot_give_is_named_with_its_line(tag: str, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLANK", "")
    monkeypatch.delenv("GONE", raising=False)
    Path("inventory.yml").write_text(FROM_ENVIRONMENT.replace("!env WANDB", tag).replace("env_file", "# env_file"))
    with pytest.raises(InvalidInput) as caught:
        load(Path("inventory.yml"))
    assert str(caught.value) == f"inventory.yml:7:21: error: {error}"


def test_a_secret_on_a_command_line_is_refused_without_being_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB", SECRETS["WANDB"])
    text = FROM_ENVIRONMENT.replace("[python, -V]", "[python, -c, !env WANDB]").replace("env_file", "# env_file")
    with pytest.raises(InvalidInput) as caught:
        make_context(text)
    assert SECRETS["WANDB"] not in str(caught.value)
