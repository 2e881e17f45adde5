"""Ranges, variables and patterns are compared with the results of Ansible's own code."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.ansible_oracle import Ansible
from tfprov.errors import Usage
from tfprov.inventory.host_names import RangeError, expand
from tfprov.inventory.host_patterns import match_hosts
from tfprov.model.validators import InvalidValue
from tfprov.model.yaml_node import NOWHERE, Mapping, Scalar, plain
from tfprov.settings.connection import build_connection, check_names
from tfprov.settings.connection_vars import PARSERS
from tfprov.settings.load import load_inventory
from tfprov.templating.host_values import TemplateProblems
from tfprov.templating.magic_vars import HostVars

pytestmark = pytest.mark.lane("parity")

RANGES = [
    "node", "node1", "node[1:3]", "node[01:03]", "node[001:100:33]", "n[1:2]-[a:c]", "[a:f]", "[A:C]x",
    "www[1:50:2].example.com", "a[0:0]b", "[9:11]", "[09:11]", "db-[a:f:2]", "x[:3]", "[1:3][1:2]", "h[1:10:10]",
    "h[1:10:11]", "[x:z]y[8:9]", "[a:a]", "h[1:]", "h[01:3]", "h[a:3]", "h[1:c]", "h[1-3]", "[00:10:5]", "h[0:3:1]",
]  # fmt: skip

PRECEDENCE = {
    "deeper groups win": """
all:
  vars: {a: all, b: all, c: all}
  children:
    parent:
      vars: {a: parent, b: parent}
      children:
        child: {vars: {a: child}, hosts: {h1: , h2: {a: host}}}
""",
    "the last of equally deep groups in the alphabet wins": """
all:
  children:
    zoo: {hosts: {h1: }, vars: {a: zoo, b: zoo}}
    ant: {hosts: {h1: , h2: }, vars: {a: ant, c: ant}}
""",
    "a priority decides among equally deep groups": """
all:
  children:
    zoo: {hosts: {h1: }, vars: {a: zoo}}
    ant: {hosts: {h1: }, vars: {a: ant, ansible_group_priority: 10}}
""",
    "the longest way from all is a group's depth": """
all:
  children:
    top: {children: {middle: {children: {both: }}}, vars: {a: top}}
    both: {hosts: {h1: }, vars: {a: both}}
    other: {hosts: {h1: }, vars: {a: other}}
""",
    "a variable that is set twice is replaced, not merged": """
all:
  vars: {map: {a: 1, b: 2}, list: [1, 2]}
  hosts: {h1: {map: {c: 3}}, h2: {list: [3]}}
""",
    "a host in several groups has the variables of all places": """
all:
  hosts: {h1: {a: 1}}
  children:
    g1: {hosts: {h1: {b: 2}}}
    g2: {hosts: {h1: {a: 3}, "h[1:2]": {c: 4}}}
""",
    "groups need not be under all": """
ps: {hosts: {h1: }}
worker: {hosts: {"h[2:3]": {x: 1}}, vars: {y: 2}}
all: {vars: {z: 3}}
""",
    "values are YAML 1.1": """
all:
  vars: {a: yes, b: 010, c: 1_000, d: 0x1F, e: 1.5e+3, f: ~, g: "yes", h: off, i: 1:30, j: '', k: .5, l: 1e3}
  hosts: {h1: {text: "{{ a }}"}}
""",
    "anchors and merge keys": """
all:
  vars:
    base: &base {a: 1, b: 2}
    more: &more {<<: *base, b: 3}
    twice: {<<: *base, <<: *more}
    lists: {<<: [*base], c: 4, <<: [*more, *base]}
  hosts: {h1: {<<: *base}}
""",
    "connection variables": """
all:
  vars:
    ansible_user: trainer
    ansible_password: for all
    ansible_private_key_file: ~/keys/all
    ansible_ssh_timeout: 20
  children:
    worker:
      vars: {ansible_port: 2200, ansible_ssh_pass: of the group}
      hosts:
        h1: {ansible_host: 10.0.0.1, ansible_become: true}
        h2: {ansible_port: "2201", ansible_user: other, ansible_ssh_private_key_file: /keys/own}
        h3: {ansible_ssh_password: of the host, ansible_ssh_timeout: "30"}
        h4: {ansible_ssh_extra_args: -J bastion, ansible_python_interpreter: /usr/bin/python3, ansible_shell_type: sh}
    ps:
      hosts:
        h5: {ansible_host: "fe80::2"}
        h6: {ansible_ssh_host: 10.0.0.6, ansible_host: 10.0.0.7, ansible_ssh_port: 2206, ansible_ssh_user: old}
        h7: {ansible_ssh_host: 10.0.0.8, ansible_port: 2207, ansible_ssh_port: "2208", ansible_ssh_common_args: ""}
""",
    "a group of groups without hosts": """
all:
  children:
    empty:
    outer: {children: {inner: {hosts: {h1: }}}, vars: {a: outer}}
""",
}

FLEET = """
all:
  hosts: {lone: , "rack.example.com": }
  children:
    ps: {hosts: {"ps[0:1]": }}
    worker: {hosts: {"node[1:12]": }}
    gpu: {hosts: {node1: , node3: , node5: }}
    web: {children: {front: {hosts: {f1: , f2: }}, back: {hosts: {b1: , f2: }}}}
    empty_one: {}
"""
PATTERNS = [
    "all", "*", "ps", "worker", "node1", "ps:worker", "ps,worker", "worker:&gpu", "worker:!gpu", "worker:!node1",
    "all:!worker", "all:!worker:!ps", "worker:&gpu:!node3", "gpu,worker", "node*", "node1*", "*.example.com",
    "rack.example.com", "node?", "node[12]", "~node[12]$", "~(ps|gpu)", "~^f", "web", "front:back", "front:&back",
    "front:!back", "worker[0]", "worker[-1]", "worker[0:2]", "worker[9:]", "worker[2:2]", "worker[11]", "gpu[1]",
    "ps[0]", "ps0", "ps*", "p*", "w*", "!gpu", "&gpu", "!gpu:ps", "node1:node2", "node2:node1", "node1,node1", "lone",
    "all:&lone", "ungrouped", "front[0]:back[0]", "worker[0:1],ps", "w*:&g*", "node1 , node2", "worker:&nowhere",
    "node[1:3]", "*1", "web[0:9]", "all[0]", "all[1:2]", "empty_one", "~node1[0-2]", "!ps:!worker", "ps:&worker",
    "f?", "all:!~node.*", "nowhere", "worker[99]", "a*", "~^all$", "~.*1$", "*[0]",
]  # fmt: skip


BOOLEANS = [
    True, False, 1, 0, 1.0, 0.0, 2, -1, 0.5, "yes", "no", "Yes", "NO", "on", "off", "true", "False", "TRUE", "y", "n", "t",
    "f", "1", "0", " yes ", "maybe", "", "2", "1.0", "truthy", None, [], [True], {}, "ja", "oN\n",
]  # fmt: skip


def random_inventory(chance: random.Random) -> str:
    """Return an inventory with a random forest of groups, hosts and variables."""
    names = [f"g{number}" for number in range(6)]
    chance.shuffle(names)
    groups: dict[str, Any] = {}
    for position, name in enumerate(names):
        hosts = {f"h{chance.randint(1, 4)}": {"own": name} if chance.random() < 0.2 else None for _ in range(2)}
        values: dict[str, Any] = {variable: name for variable in "abc" if chance.random() < 0.5}
        if chance.random() < 0.3:
            values["ansible_group_priority"] = chance.randint(1, 3)
        children: dict[str, Any] = {child: {} for child in names[position + 1 :] if chance.random() < 0.3}
        groups[name] = {"hosts": hosts, "vars": values, "children": children}
    return json.dumps({"all": {"vars": {"a": "all"}, "children": groups}})


INVENTORIES = PRECEDENCE | {f"random {seed}": random_inventory(random.Random(seed)) for seed in range(30)}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("inventories")
    paths = {}
    for number, (name, text) in enumerate([*INVENTORIES.items(), ("fleet", FLEET)]):
        paths[name] = directory / f"{number}.yml"
        paths[name].write_text(text)
    return paths


@pytest.fixture(scope="module")
def answers(files: dict[str, Path], ansible: Ansible) -> dict[str, Any]:
    structures = [ansible.ask("structure", sources=[str(files[name])]) for name in INVENTORIES]
    selected = ansible.ask("patterns", sources=[str(files["fleet"])], texts=PATTERNS)
    return {
        "ranges": dict(zip(RANGES, ansible.ask("ranges", texts=RANGES), strict=True)),
        "inventories": dict(zip(INVENTORIES, structures, strict=True)),
        "patterns": dict(zip(PATTERNS, selected, strict=True)),
        "booleans": ansible.ask("booleans", values=BOOLEANS),
        "connection variables": ansible.ask("connection_variables"),
    }


def test_ranges_expand_as_in_ansible(answers: dict[str, Any]) -> None:
    def expanded(text: str) -> list[str] | None:
        try:
            return expand(text)
        except RangeError:
            return None

    assert {text: expanded(text) for text in RANGES} == answers["ranges"]


@pytest.mark.parametrize("name", INVENTORIES)
def test_hosts_groups_and_variables_are_those_of_ansible(
    answers: dict[str, Any], files: dict[str, Path], name: str
) -> None:
    inventory = load_inventory(files[name])
    variables_of = {host: plain(inventory.variables(host)) for host in inventory.hosts}
    for values in variables_of.values():
        values.pop("ansible_group_priority", None)  # Ansible takes it for itself, here it may be seen as well
    assert variables_of == answers["inventories"][name]["hosts"]
    groups = {group: sorted(inventory.members(group)) for group in inventory.groups if group != "ungrouped"}
    assert groups == answers["inventories"][name]["groups"]


def test_patterns_select_the_hosts_that_ansible_selects(answers: dict[str, Any], files: dict[str, Path]) -> None:
    fleet = load_inventory(files["fleet"])

    def selected(pattern: str) -> list[str] | None:
        try:
            return list(match_hosts(fleet, pattern)) or None
        except Usage:
            return None

    assert {pattern: selected(pattern) for pattern in PATTERNS} == answers["patterns"]


@pytest.mark.parametrize("pattern", ["worker:nowhere", "ps:!nowhere", "all:&nowhere", "~[", "~nowhere"])
def test_a_term_that_matches_nothing_is_an_error(files: dict[str, Path], pattern: str) -> None:
    with pytest.raises(Usage, match=r"nowhere|~\["):
        match_hosts(load_inventory(files["fleet"]), pattern)


def test_booleans_are_parsed_as_in_ansible(answers: dict[str, Any]) -> None:
    def read(value: Any) -> bool | None:
        try:
            return bool(PARSERS["ansible_become"]("ansible_become", value))
        except InvalidValue:
            return None

    booleans = [(value, read(value)) for value in BOOLEANS]
    assert booleans == list(zip(BOOLEANS, answers["booleans"], strict=True))


def test_connection_variables_work_as_in_ansible(answers: dict[str, Any], files: dict[str, Path]) -> None:
    inventory = load_inventory(files["connection variables"])
    for host, expected in answers["inventories"]["connection variables"]["ways"].items():
        variables = inventory.variables(host)
        faults = TemplateProblems()
        route = build_connection(inventory, host, variables, HostVars(inventory).bind(host, variables), faults)
        assert {problem.what.split("`: ")[-1] for problem in faults.problems} <= {
            "`~/keys/all` does not exist",
            "`/keys/own` does not exist",
        }
        assert (route.address, route.port, route.user) == (
            expected["host"],
            expected["port"],
            expected["remote_user"],
        )
        assert (route.password, route.timeout) == (expected["password"], expected["timeout"])
        assert route.key_files == (Path(expected["private_key_file"]).expanduser(),)


def test_connection_variables_of_ansible_are_not_reported_as_typos(answers: dict[str, Any]) -> None:
    faults = TemplateProblems()
    names = answers["connection variables"]
    assert len(names) > 30
    check_names(Mapping({name: Scalar("", NOWHERE) for name in names}), faults)
    assert not faults.problems


def test_enough_patterns_are_compared() -> None:
    assert len(set(PATTERNS)) >= 40
