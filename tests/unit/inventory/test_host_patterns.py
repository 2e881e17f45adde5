"""Host patterns select the hosts that Ansible selects, in its order; what is stricter is refused in one line."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.ansible_oracle import Ansible
from tfprov.errors import Usage
from tfprov.inventory.host_patterns import match_hosts
from tfprov.model.inventory import Inventory
from tfprov.settings.load import load_inventory

pytestmark = pytest.mark.lane("parity")

FLEET = """
all:
  hosts: {lone: , "rack.example.com": , "10.0.0.7": , "[2001:db8::7]:22": , "2022": }
  children:
    ps: {hosts: {"ps[0:1]": }}
    worker: {hosts: {"node[1:12]": }}
    gpu: {hosts: {node1: , node3: , node5: , g-1: }}
    web: {children: {front: {hosts: {f1: , f2: }}, back: {hosts: {b1: , f2: }}}, hosts: {w.example.com: }}
    tree: {children: {left: , right: {hosts: {x4: , x1: }}}}
    left: {children: {l1: {hosts: {x1: }}, l2: {hosts: {x2: }}}, hosts: {x3: }}
    both: {hosts: {node1: , node2: }}
    named: {hosts: {both: }}
    empty_one: {}
    with-dash: {hosts: {d1: }}
"""
PATTERNS = [
    "all", "*", "ps", "worker", "node1", "ps:worker", "ps,worker", "worker:&gpu", "worker:!gpu", "worker:!node1",
    "ungrouped", "all:!worker", "all:!worker:!ps", "worker:&gpu:!node3", "gpu,worker", "node*", "node1*",
    "*.example.com", "all[0]", "all[1:2]", "rack.example.com", "node?", "node[12]", "~node[12]$", "~(ps|gpu)", "~^f",
    "web", "front:back", "front:&back", "all[-1]", "front:!back", "worker[0]", "worker[-1]", "worker[0:2]",
    "worker[9:]", "worker[2:2]", "worker[11]", "gpu[1]", "worker[1-3]", "ps[0]", "ps0", "ps*", "p*", "w*", "!gpu",
    "&gpu", "!gpu:ps", "node1:node2", "node2:node1", "node1,node1", "lone", "worker[2:0]", "all:&lone",
    "front[0]:back[0]", "worker[0:1],ps", "w*:&g*", "node1 , node2", "node[1:3]", "*1", "web[0:9]", "worker[3:1]",
    "empty_one", "~node1[0-2]", "!ps:!worker", "ps:&worker", "f?", "all:!~node.*", "~^all$", "~.*1$", "*[0]", "*[0:3]",
    "w*[0:4]", "both", "both:ps", "&both", "!both", "all:&both", "both[0]", "2022", "ps:2022", "lone:2022", "10.0.0.7",
    "10.0.0.7:22", "10.*", "2001:db8::7", "[2001:db8::7]:22", "2001:db8::7,ps", "ps:2001:db8::7", "all:!2001:db8::7",
    "all,!2001:db8::7", "2001*", "~2001", "tree", "tree[0]", "tree[0:2]", "tree[1]", "left", "left[0]", "l*", "l?[0:3]",
    "~l[12]", "x*", "x[1:3]", "x[13]", "x[!1]", "[x]1", "with-dash", "with-dash:ps", "with*", "ps worker",
    "ps  ,  worker", " ps", "ps ", ",ps,", "ps,,worker", "ps:,worker", "ps::worker", "~ps:gpu", "~(?:ps|gpu)",
    "~(?:ps|gpu),", "~^(ps|front)$", "~ps[0]", "~node1$,gpu", "!~node.*", "&~node[1-3]$", "all:&~node[1-3]$", "NODE1",
    "Worker", "worker:!~node1.", "worker,!gpu,&node*", "&gpu,worker,!node1", "worker:&gpu:&node[1-4]", "!node1,worker",
    "node[1-4]", "node[1-3][0]", "worker[0]:worker[-1]", "worker[0],worker[-1]", "worker:!worker[0]",
    "worker:&worker[0:3]", "worker[0:3]:!worker[1]", "gpu[3]", "gpu[0:99]", "gpu[-4]", "nowhere", "worker[99]",
    "gpu[-5]", "a*", "ps:1", "node1:22", "web:&", "f1:b1:f2", "w.example.com", "*.com:&web", "*example*", "*.*",
    "?????", "**", "node[!1]*", "node1[012]", "~", "[", "]", "ps[", "ps]", "ps[a]", "ps[0", "all:all", "all,all,ps",
    "front,web", "back:web:front", "ungr*", "al?", "worker:!empty*", "empty*:gpu", "worker:!empty_one[0]",
    "empty_one[0],ps", "worker:&empty*", "worker:!~empty_", "empty_one[1:],gpu",
]  # fmt: skip
LIMITS = [
    "ps", "web:!back", "gpu,ps", "@FILE", "@FILE,ps", "ps,@FILE", "@EMPTY", "!ps", "&gpu", "~^node1", "worker[1:3]",
    "@FILE,!node3",
]  # fmt: skip


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Inventory:
    path = tmp_path_factory.mktemp("fleet") / "hosts.yml"
    path.write_text(FLEET)
    path.with_name("hosts.retry").write_text("node5\n\n  ps1 \nfront\n&all\n!node12\n")
    path.with_name("empty.retry").write_text("\n")
    return load_inventory(path)


@pytest.fixture(scope="module")
def answers(fleet: Inventory, ansible: Ansible) -> dict[str, Any]:
    of_plays = ansible.ask("patterns", sources=[fleet.path], texts=PATTERNS)
    of_limits = ansible.ask("limits", sources=[fleet.path], texts=[with_paths(text, fleet) for text in LIMITS])
    return {
        "patterns": dict(zip(PATTERNS, of_plays, strict=True)),
        "limits": dict(zip(LIMITS, of_limits, strict=True)),
    }


def with_paths(text: str, fleet: Inventory) -> str:
    """Return `text` with the paths of the pattern files beside the fleet."""
    directory = Path(fleet.path).parent
    return text.replace("FILE", str(directory / "hosts.retry")).replace("EMPTY", str(directory / "empty.retry"))


def selected(fleet: Inventory, pattern: str) -> list[str] | None:
    """Return the hosts of a pattern, or None for none or an error."""
    try:
        return list(match_hosts(fleet, pattern)) or None
    except Usage:
        return None


STRICTER = [
    "ps:2022", "ps:2001:db8::7", "all:!2001:db8::7", "ps:,worker", "~(?:ps|gpu)", "worker:!~node1.", "ps[", "ps]",
    "ps[0", "web:&", "~", "[", "]",
]  # fmt: skip
"""Patterns that are errors here, and partly used with a warning in Ansible."""


def test_patterns_and_limits_select_the_hosts_that_ansible_selects(answers: dict[str, Any], fleet: Inventory) -> None:
    selection = {pattern: selected(fleet, pattern) for pattern in PATTERNS}
    stricter = dict.fromkeys(pattern for pattern in STRICTER if selection[pattern] is None)
    assert selection == answers["patterns"] | stricter


def test_a_limit_selects_the_hosts_that_ansible_selects(answers: dict[str, Any], fleet: Inventory) -> None:
    everyone = match_hosts(fleet, "all")
    left = {limit: set(selected(fleet, with_paths(limit, fleet)) or ()) for limit in LIMITS}
    selection = {limit: [host for host in everyone if host in hosts] for limit, hosts in left.items()}
    assert answers["limits"]["@EMPTY"] == list(everyone), "to Ansible, an empty file is no limit"
    assert selection == answers["limits"] | {"@EMPTY": []}


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "an empty host pattern; use `all`, a group or a host"),
        ("worker:nowhere", "no host or group matches `nowhere`; see `hosts:` and `children:` in the inventory"),
        ("wroker", "no host or group matches `wroker`; did you mean `worker`?"),
        ("ps:!nowhere", "no host or group matches `nowhere`; see `hosts:` and `children:` in the inventory"),
        ("localhost", "no host or group matches `localhost`; tfprov knows only the hosts of the inventory: add it there"),
        ("worker[12]", "`worker[12]` names no host; they go from `[0]` to `[11]`"),
        ("~a**", "`~a**` is not a regular expression: multiple repeat at position 2; correct it, or leave out the `~`"),
        ("ps[0", "unbalanced brackets in `ps[0`; for example `worker[0:2]`"),
        ("@/no/such/file", "`@/no/such/file`: no such file or directory; name a file with one pattern a line"),
        ("@/", "`@/`: is a directory; name a file with one pattern a line"),
        ("@", "`@` names no host; use `all`, a group or a host"),
        ("ps,&", "`ps,&` names no host; use `all`, a group or a host"),
        ("ps,~", "`ps,~` names no host; use `all`, a group or a host"),
        ("ps,!", "`ps,!` names no host; use `all`, a group or a host"),
    ],
)  # fmt: skip
def test_a_term_that_selects_no_host_is_refused(fleet: Inventory, pattern: str, message: str) -> None:
    with pytest.raises(Usage) as raised:
        match_hosts(fleet, pattern)
    assert str(raised.value) == message


def test_a_regular_expression_with_a_colon_needs_a_comma(fleet: Inventory) -> None:
    with pytest.raises(Usage, match="put a `,` behind it"):
        match_hosts(fleet, "~(?:ps|gpu)")
    assert match_hosts(fleet, "~(?:ps|gpu),") == (*match_hosts(fleet, "ps"), *match_hosts(fleet, "gpu"))


def test_a_file_with_an_unknown_host_is_an_error(fleet: Inventory, tmp_path: Path) -> None:
    (tmp_path / "x.retry").write_text("ps0\ngone\n")
    with pytest.raises(Usage, match="no host or group matches `gone`"):
        match_hosts(fleet, f"@{tmp_path}/x.retry")


def test_enough_patterns_and_limits_are_compared() -> None:
    assert len(set(PATTERNS)) >= 150
