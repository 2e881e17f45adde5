"""Generated inventories and patterns have the results of ansible-core, which runs in a process of its own."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.ansible_oracle import Ansible
from tests.support.examples import examples
from tfprov.errors import Usage
from tfprov.inventory.host_patterns import match_hosts
from tfprov.model.inventory import Inventory
from tfprov.model.yaml_node import plain
from tfprov.settings.load import load_inventory

pytestmark = pytest.mark.lane("parity")

GROUPS = ("alpha", "Beta", "gamma", "delta", "eps", "_zeta")
"""The children of a group are groups after it, so that there are no loops."""
HOSTS = ("h1", "h2", "n[1:3]", "n[2:4]", "p[01:03]", "x[a:c]", "y[1:2]-[a:b]", "h1:2201", "10.0.0.1", "n2")
ONE = ("h1", "h2", "n2", "n3", "n1", "n4", "p01", "xa", "y1-b", "10.0.0.1", "gone")

values = st.one_of(
    st.integers(-2, 9),
    st.sampled_from(["text", "", "{{ a }}", "ü", "1", "no"]),
    st.booleans(),
    st.none(),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.sampled_from("kl"), st.integers(0, 3), max_size=2),
)
some_variables = st.dictionaries(st.sampled_from("abc"), values, min_size=2)
"""Few names, so that sources contradict each other."""


@st.composite
def group_variables(draw: st.DrawFn) -> dict[str, Any]:
    variables = draw(some_variables)
    if draw(st.integers(0, 2)) == 0:
        variables["ansible_group_priority"] = draw(st.integers(-1, 3))
    return variables


@st.composite
def bodies(draw: st.DrawFn, number: int) -> dict[str, Any] | None:
    """A group of a YAML inventory, with all below it."""
    body: dict[str, Any] = {}
    if draw(st.integers(0, 3)):
        names = st.sampled_from(HOSTS)
        body["hosts"] = draw(st.dictionaries(names, st.one_of(st.none(), some_variables), min_size=1, max_size=4))
    if draw(st.booleans()):
        body["vars"] = draw(group_variables())
    behind = range(number + 1, len(GROUPS))
    if behind and draw(st.booleans()):
        below = draw(st.lists(st.sampled_from(behind), max_size=2, unique=True))
        body["children"] = {GROUPS[child]: draw(bodies(child)) for child in below}
    order = draw(st.permutations(list(body)))
    return {section: body[section] for section in order} or None


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A YAML inventory with several groups, maybe with `all`."""
    document: dict[str, Any] = {}
    for number in draw(st.lists(st.integers(-1, len(GROUPS) - 1), min_size=1, max_size=4, unique=True)):
        document["all" if number < 0 else GROUPS[number]] = draw(bodies(number))
    return json.dumps(document)


@st.composite
def ini_texts(draw: st.DrawFn) -> str:
    """An INI inventory with a section for every group."""
    lines = [*draw(st.lists(st.sampled_from(["lone", "h1", "10.0.0.1 a=1"]), max_size=1))]
    chosen = draw(st.lists(st.integers(0, len(GROUPS) - 1), min_size=1, max_size=3, unique=True))
    for number in chosen:
        lines.append(f"[{GROUPS[number]}]")
        for host in draw(st.lists(st.sampled_from(HOSTS), max_size=2)):
            pairs = draw(
                st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["1", "text", "[1,2]", "True"]), max_size=2)
            )
            lines.append(" ".join([host, *(f"{key}={value}" for key, value in pairs.items())]))
        below = [GROUPS[child] for child in chosen if child > number and draw(st.booleans())]
        lines += [f"[{GROUPS[number]}:children]", *below] if below else []
        if draw(st.booleans()):
            lines += [f"[{GROUPS[number]}:vars]", f"{draw(st.sampled_from('abcd'))} = {draw(st.integers(0, 9))}"]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Files:
    """An inventory: the texts of its files by their names, and the sources among them."""

    texts: dict[str, str]
    sources: tuple[str, ...]

    def write(self, directory: Path) -> list[str]:
        """Write everything below `directory`, which is emptied before; return the sources."""
        shutil.rmtree(directory, ignore_errors=True)
        for name, text in self.texts.items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text)
        return [str(directory / source) for source in self.sources]


@st.composite
def inventories(draw: st.DrawFn) -> Files:
    texts: dict[str, str] = {}
    sources = []
    for number in range(draw(st.integers(1, 3))):
        home = draw(st.sampled_from(["", "other/"]))
        is_ini = draw(st.integers(0, 3)) == 0
        sources.append(f"{home}{number}.{'ini' if is_ini else draw(st.sampled_from(['yml', 'json']))}")
        texts[sources[-1]] = draw(ini_texts() if is_ini else documents())
        for group in draw(st.lists(st.sampled_from(("all", "ungrouped", *GROUPS)), max_size=2)):
            place = draw(
                st.sampled_from([f"{group}.yml", group, f"{group}/one.yml", f"{group}/two.json", f"{group}.json"])
            )
            if not {f"{home}group_vars/{group}", f"{home}group_vars/{group}/one.yml"} & set(texts):
                texts[f"{home}group_vars/{place}"] = json.dumps(draw(some_variables))
        for host in draw(st.lists(st.sampled_from(ONE), max_size=3)):
            texts[f"{home}host_vars/{host}.yml"] = json.dumps(draw(some_variables))
    return Files({name: text for name, text in texts.items() if _fits(name, texts)}, tuple(sources))


def _fits(name: str, texts: dict[str, str]) -> bool:
    """Whether no other file has the path of a directory that `name` needs."""
    return name.rpartition("/")[0] not in texts


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inventories") / "this"


def groups_of(inventory: Inventory) -> dict[str, list[str]]:
    return {name: list(inventory.members(name)) for name in inventory.groups}


@examples(120)
@given(files=inventories())
def test_a_generated_inventory_is_read_as_by_ansible(ansible: Ansible, directory: Path, files: Files) -> None:
    sources = files.write(directory)
    expected = ansible.ask("effective", sources=sources)
    inventory = load_inventory(sources)
    variables = {host: plain(inventory.variables(host)) for host in inventory.hosts}
    for values in variables.values():
        if "ansible_group_priority" not in "".join(text for name, text in files.texts.items() if "_vars/" in name):
            values.pop("ansible_group_priority", None)  # Ansible takes it for itself, here it may be seen as well
    assert variables == expected["hosts"]
    assert groups_of(inventory) == expected["groups"]
    assert {name: list(group.children) for name, group in inventory.groups.items()} == expected["children"]


contradicting = st.fixed_dictionaries(
    {"a": st.integers(0, 9)}, optional={"b": st.integers(0, 9), "ansible_group_priority": st.integers(-1, 2)}
)
flat = st.dictionaries(
    st.sampled_from(GROUPS), st.fixed_dictionaries({"hosts": st.just({"h1": None}), "vars": contradicting}), min_size=2
)


@examples(40)
@given(groups=flat)
def test_group_priorities_are_those_of_ansible(ansible: Ansible, directory: Path, groups: dict[str, Any]) -> None:
    sources = Files({"0.yml": json.dumps(groups)}, ("0.yml",)).write(directory)
    expected = ansible.ask("effective", sources=sources)["hosts"]["h1"]
    variables = plain(load_inventory(sources).variables("h1"))
    assert {name: variables.get(name) for name in "ab"} == {name: expected.get(name) for name in "ab"}


WORDS = (
    *GROUPS,
    "all",
    "ungrouped",
    *ONE,
    "*a",
    "h?",
    "n*",
    "[hn]*",
    "~^h[12]$",
    "~.*a$",
    "*1",
    "g*",
    "p0[1-2]",
    "nothing",
)
words = st.one_of(
    st.sampled_from(WORDS),
    st.builds(
        "{}{}".format,
        st.sampled_from((*GROUPS, "all", "n*", "*")),
        st.sampled_from(["[0]", "[-1]", "[1:]", "[0:1]", "[1:2]", "[2:0]", "[1-2]", "[9]"]),
    ),
)
signed = st.builds("{}{}".format, st.sampled_from(["", "", "", "&", "!"]), words)
patterns = st.builds(
    lambda parts, mark: mark.join(parts), st.lists(signed, min_size=1, max_size=4), st.sampled_from(":,")
)


def terms(pattern: str) -> list[str]:
    """Return the terms of a pattern without their signs."""
    return [word.lstrip("&!") for word in re.split(r"[,:](?![^\[]*\])", pattern)]


@examples(60)
@given(files=inventories(), texts=st.lists(patterns, min_size=4, max_size=10))
def test_generated_patterns_select_the_hosts_that_ansible_selects(
    ansible: Ansible, directory: Path, files: Files, texts: list[str]
) -> None:
    sources = files.write(directory)
    inventory = load_inventory(sources)
    assume(inventory.hosts)
    texts_to_match = [*texts, *(word for text in texts for word in terms(text))]
    answers = dict(zip(texts_to_match, ansible.ask("patterns", sources=sources, texts=texts_to_match), strict=True))
    for text in texts:
        try:
            selected: list[str] | None = list(match_hosts(inventory, text)) or None
        except Usage:  # where Ansible goes on without the word that matches nothing
            assert None in [answers[word] for word in terms(text)]
        else:
            assert (text, selected) == (text, answers[text])
