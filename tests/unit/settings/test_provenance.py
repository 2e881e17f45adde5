"""`tfprov inventory explain`: the provenance of every value."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_output import CommandResult, run_command
from tests.support.vaults import encrypt, value
from tfprov.model.yaml_node import plain
from tfprov.settings.load import load_inventory
from tfprov.settings.resolve import resolve

INVENTORY = """\
all:
  vars:
    data_root: /data
    secret_sauce: pepper
    tfprov:
      cluster: linear
      command: [python, linear.py, "--data={{ data_root }}/train"]
      flags: {train_steps: 2000, lr: 0.10}
      env: {WHO: "{{ task.name }}", BAD: "{{ nobody }}"}
      checkpoints: {to: ./out}
  children:
    ps: {hosts: {node1: }, vars: {tfprov: {flags: {train_steps: 1}}}}
    worker:
      hosts:
        node[1:3]:
        node4: {data_root: /fast, ansible_password: hunter22, tfprov: {flags: 5}}
      vars: {tfprov: {tasks_per_host: 2, flags: {train_steps: 500}}}
  hosts: {node5: }
"""
Ask = Callable[..., CommandResult]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[Any]) -> Ask:
    monkeypatch.chdir(tmp_path)
    Path("inventory.yml").write_text(INVENTORY)
    return lambda *words: run_command(capsys, "inventory", "explain", *words)


def lines(shown: CommandResult) -> list[str]:
    assert shown.code == 0, shown.lines
    return [" ".join(line.split()) for line in shown.out.splitlines()]


def test_a_value_is_listed_above_those_it_overrides(ask: Ask) -> None:
    assert lines(ask("node2", "tfprov.flags.train_steps", "-e", "tfprov.flags.train_steps=7")) == [
        "tfprov.flags.train_steps 7 -e tfprov.flags.train_steps",
        "over 500 inventory.yml:17:50 (group `worker`)",
        "over 2000 inventory.yml:8:15 (group `all`)",
    ]


def test_each_of_two_roles_lists_the_settings_of_the_other(ask: Ask) -> None:
    shown = lines(ask("node1", "tfprov.flags.train_steps"))
    assert shown == [
        "settings as ps",
        "tfprov.flags.train_steps 1 inventory.yml:12:52 (group `ps`)",
        "over 2000 inventory.yml:8:15 (group `all`)",
        "not 500 inventory.yml:17:50 (group `worker`): of another role",
        "",
        "settings as worker",
        "tfprov.flags.train_steps 500 inventory.yml:17:50 (group `worker`)",
        "over 2000 inventory.yml:8:15 (group `all`)",
        "not 1 inventory.yml:12:52 (group `ps`): of another role",
    ]
    assert "settings as" not in "\n".join(lines(ask("node1", "tfprov.flags.train_steps", "--role", "ps")))


def test_all_values_and_defaults_are_listed(ask: Ask) -> None:
    shown = lines(ask("node4"))
    assert shown[0] == "node4: all, worker (inventory.yml:16:9)"
    assert "data_root /fast inventory.yml:16:17 (host)" in shown
    assert "over /data inventory.yml:3:5 (group `all`)" in shown
    assert "tfprov.command [python, linear.py, --data=/fast/train] inventory.yml:7:7 (group `all`)" in shown
    assert "tfprov.checkpoints.to ./out inventory.yml:10:21 (group `all`)" in shown
    assert "tfprov.checkpoints.dir /checkpoints default" in shown
    assert "tfprov.memory (none) default: no limit" in shown
    assert "tfprov.env.WHO (differs from task to task) inventory.yml:9:13 (group `all`)" in shown
    assert any(line.startswith("tfprov.env.BAD (undefined variable `nobody`) inventory.yml:9:37") for line in shown)
    assert "hunter22" not in "".join(shown)


def test_a_value_differs_from_task_to_task_if_a_variable_in_it_does(ask: Ask) -> None:
    places = '    place: "{{ task.index }}"\n    master: "{{ chief_address }}"\n    data_root: /data\n'
    flags = '{a: "{{ place }}", b: "{{ master }}", c: "{{ data_root }}/rank", '
    text = INVENTORY.replace("    data_root: /data\n", places).replace(
        "flags: {train_steps: 2000", f"flags: {flags}d: 2"
    )
    Path("inventory.yml").write_text(text)
    shown = [line.partition(" inventory.yml")[0] for line in lines(ask("node2", "tfprov.flags"))]
    assert [line for line in shown if line.startswith("tfprov.flags.")][:3] == [
        "tfprov.flags.a (differs from task to task)",
        "tfprov.flags.b (differs from task to task)",
        "tfprov.flags.c /data/rank",
    ]


def test_a_scalar_overrides_a_whole_mapping(ask: Ask) -> None:
    shown = lines(ask("node4", "tfprov.flags"))
    assert shown[0] == "tfprov.flags 5 inventory.yml:16:72 (host)"
    assert {line.partition(" inventory")[0] for line in shown[1:]} == {
        "over tfprov.flags.train_steps: 500", "over tfprov.flags.train_steps: 2000", "over tfprov.flags.lr: 0.1"
    }  # fmt: skip


def test_json_has_the_same_values(ask: Ask) -> None:
    shown = json.loads(ask("node4", "data_root", "--json").out)
    of_host = {"value": "/fast", "origin": "host", "file": "inventory.yml", "line": 16, "column": 17}
    of_all = {"value": "/data", "origin": "group `all`", "file": "inventory.yml", "line": 3, "column": 5}
    assert shown["variables"] == {"data_root": {"value": "/fast", "from": of_host, "overrides": [of_all]}}
    shown = json.loads(ask("node2", "tfprov.command", "--json").out)["settings"]["worker"]["tfprov.command"]
    assert shown["value"] == ["python", "linear.py", "--data=/data/train"]
    assert shown["template"] == ["python", "linear.py", "--data={{ data_root }}/train"]
    assert json.loads(ask("node2", "tfprov.pids", "--json").out)["settings"]["worker"]["tfprov.pids"]["default"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nod2"], "no host `nod2` in inventory.yml; did you mean `node2`?"),
        (["worker"], "no host `worker` in inventory.yml; it is a group: name one of its hosts, such as `node1`"),
        (["x"], "no host `x` in inventory.yml; see `tfprov inventory graph`"),
        (["node2", "train_steps"], "node2 has no `train_steps`; did you mean `tfprov.flags.train_steps`?"),
        (["node2", "tfprov.flags.lrr"], "node2 has no `tfprov.flags.lrr`; did you mean `tfprov.flags.lr`?"),
        (["node2", "zzz"], "node2 has no `zzz`; leave the key out to see all there is"),
        (["node2", "steps"], "node2 has no `steps`; leave the key out to see all there is"),
        (["node2", "--role", "ps"], "node2 does not have the role `ps`; its roles are worker"),
        (["node5", "--role", "ps"], "node5 does not have the role `ps`; it has none"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_an_unknown_name_is_reported_with_a_suggestion(ask: Ask, words: list[str], message: str) -> None:
    assert ask(*words) == CommandResult(2, (f"error: {message}",))


def test_a_setting_of_all_tasks_has_no_variables_of_one(ask: Ask) -> None:
    settings = '      python: "{{ task.name }}"\n      data: {path: /data}\n      command: [python, "{{ data_dir }}"]\n'
    before, _, behind = INVENTORY.partition('      command: [python, linear.py, "--data={{ data_root }}/train"]\n')
    Path("inventory.yml").write_text(before + settings + behind)
    shown = lines(ask("node2", "tfprov"))
    assert "tfprov.command (differs from task to task) inventory.yml:9:7 (group `all`)" in shown
    (python,) = (line for line in shown if line.startswith("tfprov.python"))
    assert python.startswith("tfprov.python (`task` is not known here) inventory.yml:7:")


def test_an_encrypted_value_is_listed_without_a_password(ask: Ask) -> None:
    [text] = encrypt("very-secret-token")
    more = f"    token: {value(text, 6)}    again: 'x{{{{ token }}}}'\n"
    Path("inventory.yml").write_text(INVENTORY.replace("    data_root: /data\n", more, 1))
    shown = lines(ask("node2"))
    assert "token ****** inventory.yml:3:5 (group `all`)" in shown
    assert any(line.startswith("again ****** inventory.yml:") for line in shown)


def test_the_explained_values_are_the_effective_ones(tmp_path: Path) -> None:
    text = INVENTORY.replace(', BAD: "{{ nobody }}"', "").replace(", tfprov: {flags: 5}", "")
    (tmp_path / "inventory.yml").write_text(text.replace("command:", "image: {name: x}\n      command:"))
    from tfprov.settings.provenance import explain  # noqa: PLC0415

    inventory = load_inventory(tmp_path / "inventory.yml")
    for role in resolve(inventory):
        settings = explain(inventory, role.host, role.role).settings[role.role]
        shown = {origin.name: origin.value for origin in settings if not origin.template}
        assert shown["tfprov.flags.train_steps"] == role.values.flags["train_steps"]
        assert shown["tfprov.tasks_per_host"] == role.values.tasks_per_host
        assert shown["tfprov.checkpoints.to"] == role.values.checkpoints.to
        assert shown["tfprov.stop_grace"] == role.values.stop_grace
        assert shown["tfprov.cluster"] == plain(role.node)["cluster"]


def test_an_empty_mapping_overrides_nothing(ask: Ask) -> None:
    Path("inventory.yml").write_text(INVENTORY.replace("{tasks_per_host: 2, flags: {train_steps: 500}}", "{flags: {}}"))
    assert lines(ask("node2", "tfprov.flags.train_steps")) == [
        "tfprov.flags.train_steps 2000 inventory.yml:8:15 (group `all`)",
    ]
    Path("inventory.yml").write_text(INVENTORY.replace("flags: {train_steps: 2000, lr: 0.10}", "flags: {}"))
    assert lines(ask("node2", "tfprov.flags.train_steps")) == [
        "tfprov.flags.train_steps 500 inventory.yml:17:50 (group `worker`)",
    ]


@pytest.mark.parametrize(("image", "runtime"), [("{build: .}", "docker"), ("null", "process")])
def test_the_runtime_follows_from_the_image(ask: Ask, image: str, runtime: str) -> None:
    Path("inventory.yml").write_text(INVENTORY.replace("cluster: linear", f"cluster: linear\n      image: {image}"))
    shown = lines(ask("node2", "tfprov.runtime"))
    assert shown == [f"tfprov.runtime {runtime} default: `docker` where `image` is set, else `process`"]


def test_a_group_without_hosts_is_no_host(ask: Ask) -> None:
    Path("inventory.yml").write_text(INVENTORY.replace("    ps:", "    spare: {hosts: {}}\n    ps:"))
    assert ask("spare").lines == ("error: no host `spare` in inventory.yml; it is a group without hosts",)


def test_a_missing_required_setting_is_listed(ask: Ask) -> None:
    Path("inventory.yml").write_text(INVENTORY.replace("      cluster: linear\n", ""))
    assert "tfprov.cluster (missing) no default" in lines(ask("node2"))
    shown = json.loads(ask("node2", "--json").out)["settings"]["worker"]["tfprov.cluster"]
    origin = {"value": None, "origin": "no default"}
    assert shown == {"value": None, "from": origin, "overrides": [], "default": True, "problem": "missing"}


def test_a_flag_is_shown_even_if_its_name_sounds_secret(ask: Ask) -> None:
    Path("inventory.yml").write_text(INVENTORY.replace("lr: 0.10}", "lr: 0.10, password_file: /etc/p}"))
    shown = lines(ask("node2"))
    assert "tfprov.flags.password_file /etc/p inventory.yml:8:44 (group `all`)" in shown
    assert "secret_sauce ****** inventory.yml:4:5 (group `all`)" in shown
