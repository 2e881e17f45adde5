"""Data sets in plans: their key, the tasks that read them, and when they are fetched."""

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.support.memory_cluster import Runtimes, make_context, run_up
from tfprov.cli.output import describe
from tfprov.engine.observe import observe
from tfprov.errors import HostError
from tfprov.inventory.yaml_source import read_groups
from tfprov.model.plan import Action, ActionKind
from tfprov.model.state import DataFile, DataSet, dataset_artifact
from tfprov.model.yaml_node import plain
from tfprov.planning.reconcile import plan_deliveries
from tfprov.playbook.steps import RUN
from tfprov.settings.resolve import resolve
from tfprov.settings.role_settings import data_dir, data_path
from tfprov.yamltext.load import parse

ONE, TWO = "1" * 64, "2" * 64


def inventory(*sources: str, worker: str = "", image: str = "image: {build: ./image}") -> str:
    return f"""
all:
  vars:
    tfprov:
      cluster: lab
      {image}
      command: [python, digits.py]
      flags: {{data_dir: "{{{{ data_dir }}}}"}}
      data: {{fetch: [{", ".join(sources)}], to: /srv/digits}}
  children:
    ps: {{hosts: {{h1: {{ansible_host: 10.0.0.1}}}}}}
    worker: {{hosts: {{h1: , h2: {{ansible_host: 10.0.0.2}}}}, vars: {{tfprov: {{{worker}}}}}}}
"""


def source(name: str, sha256: str = ONE, base: str = "https://example.com") -> str:
    return f'{{url: "{base}/{name}", sha256: "{sha256}"}}'


def data(*files: tuple[str, str], base: str = "https://example.com/") -> DataSet:
    return DataSet(tuple(DataFile(name, base + name, sha256) for name, sha256 in files))


def calls(hosts: Runtimes, verb: str) -> dict[str, list[str]]:
    return {name: [call for call in host.calls if call.startswith(verb)] for name, host in hosts.items()}


def test_the_key_of_a_data_set_depends_on_names_and_sums_alone() -> None:
    key = data(("a", ONE), ("b", TWO)).key
    assert data(("b", TWO), ("a", ONE), base="http://mirror/").key == key
    others: Iterable[DataSet] = (data(("a", ONE)), data(("a", TWO), ("b", ONE)), data(("a", ONE), ("c", TWO)))
    assert all(other.key != key for other in others)
    assert len(key) == 32


def test_tasks_that_read_data_get_its_directory_and_a_ps_only_the_flag() -> None:
    context = make_context(inventory(source("train")))
    ps, worker, _ = context.wanted
    assert ps.docker is not None
    assert worker.docker is not None
    assert worker.data == data(("train", ONE)).artifact
    assert (worker.docker.data_at, worker.docker.mounts, worker.env["TFPROV_DATA_DIR"]) == (
        "/srv/digits",
        (),
        "/srv/digits",
    )
    assert worker.spec["data"] == {"fetch": data(("train", ONE)).key, "to": "/srv/digits"}
    assert (ps.data, ps.docker.data_at, ps.argv[-1]) == (None, None, "--data_dir=/srv/digits")
    assert not {"TFPROV_DATA_DIR"} & ps.env.keys()
    assert "data" not in ps.spec


def test_a_spec_contains_no_url() -> None:
    context = make_context(inventory(source("train?key=s3cret")))
    assert all("s3cret" not in f"{one.spec} {one.env} {one.argv} {one.data}" for one in context.wanted)
    assert [one.data.files[0].name for one in context.data.values()] == ["train"]


def test_a_host_fetches_once_and_never_again() -> None:
    hosts: Runtimes = {}
    text = inventory(source("train"), worker="tasks_per_host: 3")
    run_up(make_context(text, runtimes=hosts))
    fetch = f"fetch {data(('train', ONE)).artifact}"
    assert calls(hosts, "fetch") == {"h1": [fetch], "h2": [fetch]}
    plan, _ = run_up(make_context(text, runtimes=hosts))
    assert not plan
    elsewhere = text.replace("https://example.com", "http://mirror:8080")
    assert not run_up(make_context(elsewhere, runtimes=hosts))[0]


def test_a_start_waits_for_the_data_and_the_data_for_the_image() -> None:
    plan, _ = run_up(make_context(inventory(source("train"))))
    fetches = [action for action in plan.actions if action.kind == ActionKind.FETCH]
    for fetch in fetches:
        assert [need for need in fetch.needs if need.endswith(f"on {fetch.host}")] == list(fetch.needs)
        assert all(need.startswith("deliver ") for need in fetch.needs)
        assert fetch.needs
    starts = {(action.subject, action.host): action.needs for action in plan.actions if action.kind == ActionKind.START}
    assert fetches
    assert starts
    for (_, host), needs in starts.items():
        assert {fetch.id for fetch in fetches if fetch.host == host} <= set(needs)


def test_other_data_restarts_its_readers_and_the_next_fetch_removes_the_old_data() -> None:
    hosts: Runtimes = {}
    run_up(make_context(inventory(source("train")), runtimes=hosts))
    first, second, third = (data(("train", ONE)), data(("train", TWO)), data(("test", TWO)))
    plan, _ = run_up(make_context(inventory(source("train", TWO)), runtimes=hosts))
    assert {(a.kind, a.subject) for a in plan.actions if a.kind in (ActionKind.STOP, ActionKind.START)} == {
        (kind, task) for kind in ("stop", "start") for task in ("worker/0", "worker/1")
    }
    assert hosts["h2"].data == {first.artifact, second.artifact}
    run_up(make_context(inventory(source("test", TWO)), runtimes=hosts))
    assert hosts["h2"].data == {second.artifact, third.artifact}


def test_roles_can_read_different_data() -> None:
    text = inventory(source("train")).replace(
        "    worker:",
        f"    evaluator: {{hosts: {{h1: }}, vars: {{tfprov: {{data: {{fetch: [{source('test')}]}}}}}}}}\n    worker:",
    )
    hosts: Runtimes = {}
    context = make_context(text, runtimes=hosts)
    run_up(context)
    train, test = data(("train", ONE)).artifact, data(("test", ONE)).artifact
    assert (hosts["h1"].data, hosts["h2"].data) == ({train, test}, {train})
    assert context.wants("h2") == {train, test}


def test_a_host_that_cannot_fetch_starts_nothing_that_reads() -> None:
    hosts: Runtimes = {}
    context = make_context(inventory(source("train")), runtimes=hosts)
    hosts["h2"].refuses[f"fetch {data(('train', ONE)).artifact}"] = "train: is not there (404); correct `url`"
    _, outcome = run_up(context)
    assert [str(error) for error in outcome.failed.values()] == ["h2: train: is not there (404); correct `url`"]
    assert [action.subject for action in outcome.skipped] == ["worker/1"]
    with pytest.raises(HostError, match=r"^h2: the data of worker/1 is not there; fetch it with `tfprov up`$"):
        hosts["h2"].start(context.wanted[-1], "run")


def test_data_is_fetched_with_the_delivery_before_any_stop() -> None:
    hosts: Runtimes = {}
    context = make_context(inventory(source("train")), runtimes=hosts)
    for module in ("build", "deliver"):
        RUN[module](context, None, False)
    assert calls(hosts, "fetch")["h2"]
    assert not calls(hosts, "start")["h2"]
    kinds = {action.kind for action in plan_deliveries("lab", context.wanted, observe(context)).actions}
    assert kinds == set()


def test_a_teardown_keeps_the_desired_data() -> None:
    hosts: Runtimes = {}
    context = make_context(inventory(source("train")), runtimes=hosts)
    run_up(context)
    for name, host in hosts.items():
        for task in [one.task for one in host.observe().containers]:
            host.stop(task, 0)
            host.remove(task)
        host.clean(context.wants(name))
    assert hosts["h2"].data == {data(("train", ONE)).artifact}
    left = replace(context, left=frozenset({"h2"}))
    hosts["h2"].clean(left.wants("h2"))
    assert hosts["h2"].data == set()


def test_an_action_in_words() -> None:
    assert (
        describe(Action(ActionKind.FETCH, "node2", f"data:{'3f2a9c01d2e4' * 2}", ()))
        == "fetch data 3f2a9c01d2e4 to node2"
    )


@pytest.mark.parametrize(
    ("text", "path"), [("{path: /srv/sets}", "/srv/sets"), ("{fetch: [%s], to: /srv/sets}", None), ("", None)]
)
def test_only_existing_data_has_a_path_on_its_host(text: str, path: str | None) -> None:
    written = f"data: {text.replace('%s', source('train'))}" if text else "cluster: lab"
    settings = {"cluster": "lab", "command": ["python"], **plain(parse(written, "inventory.yml"))}
    document = {"all": {"vars": {"tfprov": settings}}, "worker": {"hosts": {"h1": None}}}
    groups = read_groups(parse(json.dumps(document), "inventory.yml"), "inventory.yml")
    assert [data_path(role) for role in resolve(groups)] == [path]


def test_a_spec_says_which_data_its_task_reads() -> None:
    assert dataset_artifact({"data": {"fetch": "1", "to": "/x"}}) == "data:1"
    for spec in ({}, {"data": None}, {"data": "x"}, {"data": {"path": "/x"}}, {"data": {"fetch": None}}):
        assert dataset_artifact(spec) is None


def test_processes_get_the_directory_of_fetched_data() -> None:
    here = inventory(source("train"), image="address: 127.0.0.1")
    here = here.replace("h1: {ansible_host: 10.0.0.1}", "localhost: ").replace(
        "h1: , h2: {ansible_host: 10.0.0.2}", "localhost: "
    )
    key = data(("train", ONE)).key
    ps, worker = make_context(here).wanted
    assert (worker.argv[-1], worker.env["TFPROV_DATA_DIR"]) == (f"--data_dir=/data/{key}", f"/data/{key}")
    assert ps.argv[-1] == f"--data_dir=/data/{key}"
    (*_, role) = resolve(read_groups(parse(here, "i.yml"), "i.yml"))
    assert data_dir(role, lambda host, key: f"{host}:{key}") == f"localhost:{key}"
    assert data_dir(role) == "/srv/digits"
