"""Errors of wrong settings, in full, and what settings and connections are by default."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tests.support.inventories import inventory
from tfprov.errors import InvalidInput
from tfprov.model.inventory import Inventory
from tfprov.model.yaml_node import Mapping, mark_secret, plain
from tfprov.settings.cluster_rules import (
    check_image_tags,
    check_processes,
    check_runtime_in_image,
    check_similar_groups,
)
from tfprov.settings.load import load, load_inventory
from tfprov.settings.pydantic_errors import ErrorExplainer
from tfprov.settings.resolve import resolve
from tfprov.settings.role_settings import settings_for_role
from tfprov.yamltext.load import parse


class Inner(BaseModel):
    """A mapping within the one below."""

    model_config = ConfigDict(extra="forbid", strict=True)
    width: int = Field(ge=2, le=4, examples=[3])


class Outer(BaseModel):
    """A mapping with a value of each kind."""

    model_config = ConfigDict(extra="forbid", strict=True)
    share: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    inner: Inner | None = None
    many: list[Inner] = []
    words: list[str] | str = Field(default="", examples=["one"])
    when: date | None = None
    names: list[str] = Field(default=["x"], min_length=1)
    on: bool = False
    own: dict[str, str | int | float | bool] = {}


EXPLAINED = {
    "share: 0": "1: `step.share` must be more than 0, not 0; see the page",
    "share: .inf": "1: `step.share` must be a finite number, not `inf`; see the page",
    "share: '1'": "1: `step.share` must be a number, not text; write 1 without quotes",
    "inner: {width: 1}": "9: `step.inner.width` must be at least 2, not 1; for example `width: 3`",
    "inner: {width: 5}": "9: `step.inner.width` must be at most 4, not 5; for example `width: 3`",
    "inner: {breadth: 3}": "9: unknown key `step.inner.breadth`; did you mean `width`?",
    "inner: {}": "1: `step.inner.width` is missing under `step:`; for example `width: 3`",
    "inner: 3": "1: `step.inner` must be a mapping, not `3`; see the page",
    "inner: {width: 1e3}": "9: `step.inner.width` must be a whole number, not `1e3`; write 1000",
    "inner: {width: 0o17}": "9: `step.inner.width` must be a whole number, not `0o17`; write 15",
    "inner: {width: 3.5}": "9: `step.inner.width` must be a whole number, not `3.5`; for example `width: 3`",
    "many: [{width: 3}, {width: 5}]": "21: `step.many[1].width` must be at most 4, not 5; for example `width: 3`",
    "many: {}": "1: `step.many` must be a list, not a mapping; see the page",
    "words: 3": '1: `step.words` must be text, not `3`; quote it: "3"',
    "words: [3]": '9: `step.words[0]` must be text, not `3`; quote it: "3"',
    "words: {}": "1: `step.words` must be text, not a mapping; for example `words: one`",
    "when: 5": "1: `step.when`: Input should be a valid date; see the page",
    "names: []": "1: `step.names` must not be empty; see the page",
    "on: 'true'": '1: `step.on` must be true or false, not the text "true"; see the page',
    "on: 'false'": '1: `step.on` must be true or false, not the text "false"; see the page',
    "on: ''": "1: `step.on` must be true or false, not an empty text; see the page",
    "own: {'': [1]}": "7: `step.own.''` must be a single value, not a list; see the page",
    "own: {a: null}": '7: `step.own.a` must be a single value, not nothing; write "" for an empty text',
    "zzz: 1": "1: unknown key `step.zzz`; known keys: inner, many, names, on, own, share, when, words",
    "shar: 1": "1: unknown key `step.shar`; did you mean `share`?",
}


@pytest.mark.parametrize(("text", "message"), EXPLAINED.items(), ids=EXPLAINED)
def test_an_error_of_pydantic_is_explained_in_full(text: str, message: str) -> None:
    node = parse(text, "p.yml")
    assert isinstance(node, Mapping)
    with pytest.raises(ValidationError) as raised:
        Outer.model_validate(plain(node))
    explainer = ErrorExplainer(Outer, "step", "see the page", others={"breadth": "width"})
    at, _, what = message.partition(": ")
    assert [str(problem) for problem in explainer.problems(node, raised.value)] == [f"p.yml:1:{at}: error: {what}"]
    if "`step." in what and "breadth" not in text:
        outside = ErrorExplainer(Outer, "step", "see the page", inside=False)
        [problem] = outside.problems(node, raised.value)
        braces = ", or end a template in `| int`" if what.endswith("without quotes") else ""
        assert f"{problem.what}; {problem.fix}" == what.replace("`step.", "`") + braces


def test_a_secret_that_is_no_line_of_text_is_reported_without_its_value() -> None:
    node = mark_secret(parse("{zzz: 1, share: 0, inner: {breadth: 3}, names: []}", "p.yml"))
    assert isinstance(node, Mapping)
    with pytest.raises(ValidationError) as raised:
        Outer.model_validate(plain(node))
    explainer = ErrorExplainer(Outer, "step", "see the page", others={"breadth": "width"})
    assert sorted(f"{problem.what}; {problem.fix}" for problem in explainer.problems(node, raised.value)) == [
        "`step.names` must not be empty; see the page",
        "`step.share` is secret, and not one line of text; encrypt one line of text",
        "unknown key `step.inner.breadth`; did you mean `width`?",
        "unknown key `step.zzz`; known keys: inner, many, names, on, own, share, when, words",
    ]


def lines(text: str, *extra: str) -> Iterator[str]:
    """Yield the warnings about an inventory and its errors, as `load` collects them, without its name."""
    read = inventory(text, *extra)
    problems = list(check_similar_groups(read))
    try:
        roles = resolve(read, (), [check_processes])
        problems += [*check_image_tags(roles), *check_runtime_in_image(roles)]
    except InvalidInput as error:
        problems += error.problems
    for problem in problems:
        yield f"{problem.at.line}:{problem.at.column}: {problem.what}; {problem.fix}"


ONE = "one inventory is one cluster: state it once, for `all`"
TRAIN = "put them into `worker` if they are to train"
OVER_SSH = "is reached over SSH, and `runtime: process` runs tasks on this machine only"
GIVE_IMAGE = "give an `image`, or set `ansible_connection: local`"
LACKS = "is part of tfprov, which this image may lack"
CODE = "set `code`, with which it is delivered, or add `pip install tfprov` to the image"
CLUSTERS = {
    "a worker alone has any address": (
        (
            "all: {vars: {tfprov: {cluster: lab, image: {name: t@sha256:DIGEST}, command: [x], address: 127.0.0.1}}}\n"
            "worker: {hosts: {h1: }}\nnotebook: {hosts: {h1: }}\n"
        ),
        [f"1:45: the program of notebook {LACKS}; {CODE}"],
    ),
    "a server without a password in the network of its host": (
        (
            "all: {vars: {tfprov: {cluster: lab, image: {name: t@sha256:DIGEST}, command: [x], network: host,\n"
            "  allow_insecure_network: true}}}\nworker: {hosts: {h1: }}\n"
            "tensorboard: {hosts: {h1: }, vars: {tfprov: {network: host}}}\n"
        ),
        [
            (
                "4:46: `network: host` would open the tensorboard in all networks of its host; "
                "remove it: the SSH connection leads to it"
            )
        ],
    ),
    "two tasks with an address of the container itself": (
        (
            "all: {vars: {tfprov: {cluster: lab, image: {name: t:1}, command: [x], tasks_per_host: 2, bind: 127.0.0.1}}}\n"
            "worker:\n  hosts:\n    localhost: {tfprov: {address: 127.0.0.2}}\n    h1: {ansible_host: 127.0.0.1}\n"
        ),
        [
            (
                "1:90: tasks in containers cannot reach a port that is published on 127.0.0.1; "
                "leave `bind` out, or give an address of the host"
            ),
            (
                "4:26: tasks in containers cannot reach each other at 127.0.0.2; "
                "leave `address` out, or give an address of this machine"
            ),
            (
                "5:24: tasks in containers cannot reach each other at 127.0.0.1; "
                "set `address` to the one it has on the network"
            ),
        ],
    ),
    "a builder without a role whose connection has two faults": (
        (
            "all:\n  vars: {tfprov: {cluster: lab, image: {build: ., build_on: builder}, command: [x]}}\n"
            "  hosts: {builder: {ansible_port: 0, ansible_become: true, ansible_become_method: doas}}\n"
            "worker: {hosts: {h1: }}\n"
        ),
        [
            "3:35: `ansible_port` must be a port from 1 to 65535, not `0`; for example `ansible_port: 22`",
            "3:83: `ansible_become_method: doas` is not supported; use `sudo`",
        ],
    ),
    "settings that differ, and groups that are no roles": (
        (
            "all: {vars: {tfprov: {cluster: lab, command: [x]}}}\n"
            "worker: {hosts: {w1: {tfprov: {wiring: tf_config}}, w2: , w3: {tfprov: {wiring: {flags: {job_name: --a}}}}}}\n"
            "wroker: {hosts: {w4: , w5: }}\nworkers: {hosts: {w6: }}\nworkers2: {hosts: {w7: , w8: }}\nps: {}\n"
        ),
        [
            f"4:1: the group `workers` is not a role, and w6 has none; {TRAIN}",
            f"5:1: the group `workers2` is not a role, and w7 and 1 more of its hosts have none; {TRAIN}",
            f"1:22: `wiring` is `flags` for worker on w2 and `tf_config` for worker on w1; {ONE}",
            f"2:18: w1 {OVER_SSH}; {GIVE_IMAGE}",
            f"2:53: w2 {OVER_SSH}; {GIVE_IMAGE}",
            f"2:59: w3 {OVER_SSH}; {GIVE_IMAGE}",
            f"2:73: `wiring` differs between worker on w3 and worker on w1; {ONE}",
            "3:1: the group `wroker` is not a role; did you mean `worker`?",
            "6:1: the group `ps` has no hosts; add one, or remove the group",
        ],
    ),
    "parts of tfprov in an image by name": (
        (
            "all: {vars: {tfprov: {cluster: lab, image: {name: 'r:5000/t'}, command: [x], checkpoints: {dir: s3://b/r}}}}\n"
            "worker: {hosts: {h1: , h2: }}\nserving: {hosts: {h1: }}\ntensorboard: {hosts: {h1: }}\n"
        ),
        [
            (
                "1:45: the tag `latest` of `image.name` moves, and it is the one without a tag; "
                "name a version, or a digest (`@sha256:…`), so that all hosts run the same"
            ),
            f"1:45: `checkpoints.dir` {LACKS}; {CODE}",
            f"1:45: the program of serving {LACKS}; {CODE}",
        ],
    ),
    "keys that YAML reads otherwise": (
        (
            "all: {vars: {tfprov: {cluster: lab, command: [x], image: {build: ., build_args: {on: 1.10}}}}}\n"
            "worker: {hosts: {h1: {tfprov: {env: {off: 1.10}, flags: {yes: 1.10}}}}}\n"
        ),
        [
            '1:82: `on` is read by YAML as `true`; quote it: "on"',
            '1:86: `1.10` is read by YAML as `1.1`; write 1.1, or quote it: "1.10"',
            '2:38: `off` is read by YAML as `false`; quote it: "off"',
            '2:43: `1.10` is read by YAML as `1.1`; write 1.1, or quote it: "1.10"',
            '2:58: `yes` is read by YAML as `true`; quote it: "yes"',
        ],
    ),
    "names of other tools": (
        (
            "all: {vars: {tfprov: {cluster: lab, command: [x], checkpoints: {directory: /c}}}}\n"
            "worker: {hosts: {localhost: }}\n"
        ),
        ["1:65: unknown key `checkpoints.directory`; did you mean `dir`?"],
    ),
}


@pytest.mark.parametrize(("text", "expected"), CLUSTERS.values(), ids=CLUSTERS)
def test_the_problems_of_a_cluster_are_reported_in_full(text: str, expected: list[str]) -> None:
    assert list(lines(text.replace("DIGEST", "a" * 64))) == expected


SHARED = {
    "cluster": "cluster: other",
    "image": "image: {name: 'y:1'}",
    "deliver": "image: {name: null, build: .}, deliver: {from_hosts: auto}",
    "runtime": "image: null, runtime: process",
    "strategy": "strategy: parameter_server",
    "wiring": "wiring: tf_config",
    "data_service": "data_service: {address: '10.0.0.9:5050'}",
    "deadline": "deadline: 2h",
    "notify": "notify: [{url: 'https://h/x'}]",
}
"""Settings of a cluster, each with another value than that of all its tasks."""


def test_a_setting_of_the_whole_cluster_must_be_the_same_for_every_task() -> None:
    for name, other in SHARED.items():
        text = (
            "all: {vars: {tfprov: {cluster: lab, image: {name: 'x:1'}, command: [x]}}}\n"
            f"worker: {{hosts: {{w1: , w2: {{tfprov: {{{other}}}}}}}}}\nps: {{hosts: {{p1: }}}}\n"
        )
        assert [line for line in lines(text) if f": `{name}` " in line and line.endswith(f"; {ONE}")], name
    differ = "all: {vars: {tfprov: {cluster: lab, command: [x]}}}\nworker: {hosts: {w1: , w2: {tfprov: {port: 1}}}}\n"
    assert not [line for line in lines(differ) if line.endswith(ONE)]


OWN = (
    "{gpus: 1, devices: [/dev/dri], bind: 10.0.0.1, network: host, code: ., command: [x], env: {A: b}, "
    "env_file: ./a.env, flags: {a: b}, cluster: lab}"
)
SEEN = {
    "worker": {"gpus", "devices", "bind", "network", "code", "command", "env", "env_file", "flags"},
    "chief": {"gpus", "devices", "bind", "network", "code", "command", "env", "env_file", "flags"},
    "evaluator": {"gpus", "devices", "bind", "network", "code", "command", "env", "env_file", "flags"},
    "ps": {"bind", "network", "code", "command", "env", "env_file", "flags"},
    "tensorboard": set(),
    "serving": {"code", "env", "env_file"},
    "notebook": {"code", "env", "env_file"},
    "dispatcher": {"bind", "network", "code", "env", "env_file"},
    "data_worker": {"bind", "network", "code", "env", "env_file"},
}
"""Those of the settings of all tasks that a role takes: the others, it takes from its own group only."""


def settings_of(read: Inventory, role: str) -> Mapping:
    written = read.variables("h1", role=role).get("tfprov")
    assert isinstance(written, Mapping)
    return settings_for_role(read, "h1", role, written)


def test_a_role_of_its_own_takes_settings_from_its_own_group_only(tmp_path: Path) -> None:
    for role, seen in SEEN.items():
        of_all = inventory(f"all: {{vars: {{tfprov: {OWN}}}}}\n{role}: {{hosts: {{h1: }}}}\n")
        assert set(settings_of(of_all, role).entries) == {*seen, "cluster"}, role
        of_host = inventory(f"{role}: {{hosts: {{h1: {{tfprov: {OWN}}}}}}}\n")
        assert set(settings_of(of_host, role).entries) == {*seen, "cluster", "gpus", "devices"}, role
        (tmp_path / "group_vars").mkdir(exist_ok=True)
        (tmp_path / "i.yml").write_text(f"{role}: {{hosts: {{h1: }}}}\n")
        (tmp_path / f"group_vars/{role}.yml").write_text(f"tfprov: {OWN}\n")
        of_group = load_inventory(tmp_path / "i.yml")
        assert len(settings_of(of_group, role).entries) == 10, role


def test_an_inventory_is_called_as_its_first_source_and_needs_the_files_that_it_names(tmp_path: Path) -> None:
    for name in ("a.yml", "b.yml"):
        (tmp_path / name).write_text("worker: {hosts: {localhost: }}\n")
    assert load_inventory([f"{tmp_path}/a.yml", f"{tmp_path}/b.yml"]).path == f"{tmp_path}/a.yml"
    text = "all: {vars: {tfprov: {cluster: lab, command: [x], env_file: ./no}}}\nworker: {hosts: {localhost: }}\n"
    (tmp_path / "a.yml").write_text(text)
    for read in (lambda: load(tmp_path / "a.yml"), lambda: resolve(load_inventory(tmp_path / "a.yml"))):
        with pytest.raises(InvalidInput) as raised:
            read()
        fix = "correct `env_file`"
        assert [str(problem) for problem in raised.value.problems] == [
            f"{tmp_path}/a.yml:1:61: error: `{tmp_path}/no` does not exist; {fix}"
        ]
    _, [role] = load(tmp_path / "a.yml", needs_files=False)
    assert len(role.unread) == 1
