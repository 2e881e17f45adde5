"""What `check` makes of facts: every verdict, from plain values."""

import json
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.command_output import run_command
from tests.support.memory_cluster import make_context
from tests.support.memory_lab import MemoryLab
from tests.support.ports import free_ports
from tfprov.cli.check import lines
from tfprov.cli.output import Printer
from tfprov.engine.checks import host_rules
from tfprov.engine.checks.check import CheckReport, gone, in_order, lost
from tfprov.engine.checks.collect import Collected
from tfprov.engine.checks.docker_host_rules import HostWork, architectures, judge
from tfprov.engine.checks.host_rules import GIB, Finding, Verdict, clock, failed, local, note, ok, warning
from tfprov.engine.checks.image_programs import as_root, is_root
from tfprov.engine.checks.reachability import UNTRIED, Cell, Reason, failures, reasons, table
from tfprov.engine.checks.reachability import judge as judge_cell
from tfprov.engine.command_checks import Fault
from tfprov.engine.host_registry import HostRegistry
from tfprov.errors import HostError, Position, Unreachable
from tfprov.hosts.facts import ClockOffset, ContainerSummary, EngineFacts, HostFacts, Listener, System
from tfprov.images.preflight import MARGIN
from tfprov.model.cluster import Cluster, Task
from tfprov.model.state import Container, DockerOptions
from tfprov.settings.connection import ConnectionSettings

IMAGE = "tfprov/linear:1"
ENGINE = EngineFacts(
    "24.0.7", "1.43", "linux/amd64", "overlay2", "/var/lib/docker", 16 * GIB, 4, images={IMAGE: "linux/amd64"}
)
SYSTEM = System("x86_64", frozenset({"avx"}), ("127.0.0.1", "10.0.0.11"), 100 * GIB, 8 * GIB, ())
PS, WORKER = Task("ps", 0, "ps", "h1", "10.0.0.11", 2222), Task("worker", 0, "worker", "h1", "10.0.0.11", 2223)
ELSEWHERE = Task("worker", 1, "worker", "h2", "10.0.0.12", 2222)
CLUSTER = Cluster("linear", (PS, WORKER, ELSEWHERE))


def container(task: Task, **options: Any) -> Container:
    return Container(task, {}, (), {}, "/checkpoints", docker=DockerOptions(IMAGE, address="10.0.0.11", **options))


def judged(
    check: str, *wanted: Container, engine: EngineFacts | None = ENGINE, system: System = SYSTEM, **needed: int
) -> list[tuple[Verdict, str]]:
    """Return verdict and words of one kind of check."""
    facts = HostFacts(
        "h1", "SSH as trainer", system, ClockOffset(0, 0.1), engine, "" if engine else "no engine; start it"
    )
    part = HostWork(
        wanted or (container(PS), container(WORKER)), {name.replace("_", "/"): it for name, it in needed.items()}
    )
    return [(it.verdict, str(it)) for it in judge(facts, part, CLUSTER) if it.check == check]


def there(name: str, *published: tuple[str, int], running: bool = True, **labels: str) -> ContainerSummary:
    return ContainerSummary("0123456789abcdef", name, running, published=published, **labels)


def test_a_host_that_is_fine() -> None:
    facts = HostFacts("h1", "SSH as trainer", SYSTEM, ClockOffset(0.2, 0.1), ENGINE)
    findings = judge(facts, HostWork((container(PS), container(WORKER))), CLUSTER)
    assert {it.verdict for it in findings} == {Verdict.OK}
    assert {it.check: it.what for it in findings} == {
        "reach": "SSH as trainer",
        "engine": "Docker 24.0.7 (API 1.43), overlay2",
        "cpu": "x86_64 with AVX",
        "clock": "in step",
        "disk": "100.0 GiB free in /var/lib/docker",
        "memory": "16.0 GiB in all",
        "cpus": "4 in all",
        "address": "10.0.0.11",
        "ports": "2222, 2223 free",
        "image": "there",
    }


def test_without_an_engine_the_machine_is_judged_all_the_same() -> None:
    facts = HostFacts(
        "h1", "SSH as plain", SYSTEM, ClockOffset(99, 0.1), None, "plain may not use Docker; add the user"
    )
    findings = {it.check: it for it in judge(facts, HostWork((container(PS),)), CLUSTER)}
    assert findings["engine"] == failed("engine", "plain may not use Docker", "add the user")
    assert findings["clock"].verdict is Verdict.WARNING
    assert set(findings) == {"reach", "engine", "cpu", "clock", "address"}


def test_engines() -> None:
    assert judged("engine", engine=replace(ENGINE, rootless=True))[0][1].endswith("overlay2, rootless")
    assert judged("engine", engine=replace(ENGINE, driver="vfs"))[0][0] is Verdict.WARNING


@pytest.mark.parametrize(
    ("system", "verdict", "words"),
    [
        (System("x86_64", frozenset({"avx", "sse"})), Verdict.OK, "with AVX"),
        (System("x86_64", frozenset({"sse"})), Verdict.FAILED, "Illegal instruction"),
        (System("x86_64"), Verdict.NOTE, "not checked"),
        (System("aarch64", frozenset({"asimd"})), Verdict.OK, "aarch64"),
        (System(), Verdict.NOTE, "not checked"),
    ],
    ids=["avx", "no-avx", "no-cpuinfo", "arm", "unknown"],
)
def test_the_cpu_check_requires_avx(system: System, verdict: Verdict, words: str) -> None:
    ((findings, text),) = judged("cpu", system=system)
    assert findings is verdict
    assert words in text


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (ClockOffset(0.4, 0.1), ok("clock", "in step")),
        (ClockOffset(1.5, 0.5), ok("clock", "in step")),
        (ClockOffset(-2.0, 0.5), ok("clock", "2 s behind this machine")),
        (ClockOffset(3.0, 0.1), ok("clock", "3 s ahead of this machine")),
        (ClockOffset(-60.0, 0.1), warning("clock", "60 s behind this machine")),
        (ClockOffset(6.0, 1.5), ok("clock", "6 s ahead of this machine")),
        (ClockOffset(7.0, 1.5), warning("clock", "7 s ahead of this machine")),
        (None, note("clock", "not checked: `date` does not say the time in seconds")),
    ],
    ids=["in-step", "at-the-bound", "beyond", "off", "behind", "perhaps", "ahead", "unknown"],
)
def test_clocks(reading: ClockOffset | None, expected: Finding) -> None:
    fix = "set it there, for example with `timedatectl set-ntp true`"
    assert clock(reading) == (replace(expected, fix=fix) if expected.verdict is Verdict.WARNING else expected)


BARE = replace(ENGINE, images={})


@pytest.mark.parametrize(
    ("engine", "free", "needed", "verdict", "words"),
    [
        (ENGINE, 2 * GIB, None, Verdict.OK, "2.0 GiB free in /var/lib/docker"),
        (ENGINE, GIB // 2, None, Verdict.WARNING, "only 512.0 MiB free"),
        (ENGINE, None, None, Verdict.NOTE, "not checked"),
        (BARE, 2 * GIB, None, Verdict.WARNING, "only 2.0 GiB free in /var/lib/docker; an image with TensorFlow"),
        (BARE, 4 * GIB, None, Verdict.OK, "4.0 GiB free"),
        (BARE, 4 * GIB, 4 * GIB - MARGIN, Verdict.OK, "4.0 GiB free"),
        (BARE, 4 * GIB, 4 * GIB - MARGIN + 1, Verdict.FAILED, "only 4.0 GiB free"),
        (BARE, 4 * GIB, 5 * GIB, Verdict.FAILED, "only 4.0 GiB free in /var/lib/docker, and the image needs 5.0 GiB"),
        (BARE, 4 * GIB, 4 * GIB, Verdict.FAILED, "only 4.0 GiB free"),
        (BARE, None, 5 * GIB, Verdict.NOTE, "not checked"),
    ],
)
def test_room_on_the_disk(
    engine: EngineFacts, free: int | None, needed: int | None, verdict: Verdict, words: str
) -> None:
    facts = HostFacts("h1", "", replace(SYSTEM, free=free), None, engine)
    part = HostWork((container(PS),), {} if needed is None else {IMAGE: needed})
    (expected,) = (it for it in judge(facts, part, CLUSTER) if it.check == "disk")
    assert expected.verdict is verdict
    assert words in str(expected)


def test_two_images_on_one_disk_need_room_for_both() -> None:
    other = replace(container(WORKER), docker=DockerOptions("tfprov/linear:2", address="10.0.0.11"))
    facts = HostFacts("h1", "", replace(SYSTEM, free=4 * GIB), None, BARE)
    part = HostWork((container(PS), other), {IMAGE: 3 * GIB, "tfprov/linear:2": 2 * GIB})
    (expected,) = (it for it in judge(facts, part, CLUSTER) if it.check == "disk")
    assert expected.what == "only 4.0 GiB free in /var/lib/docker, and the image needs 5.0 GiB"


def test_memory() -> None:
    big, small = container(PS, memory=10 * GIB), container(WORKER, memory=5 * GIB)
    assert judged("memory", big, small) == [(Verdict.OK, "16.0 GiB in all")]
    ((verdict, words),) = judged("memory", big, container(WORKER, memory=7 * GIB))
    assert verdict is Verdict.WARNING
    assert words.startswith("16.0 GiB in all, and ps/0, worker/0 may use 17.0 GiB; lower `memory`")
    unlimited = replace(ENGINE, limits_memory=False)
    assert judged("memory", big, engine=unlimited)[0][0] is Verdict.WARNING
    assert judged("memory", engine=unlimited)[0][0] is Verdict.OK, "nobody asked for a limit"


def test_cpus() -> None:
    assert judged("cpus", container(PS, cpus=4.0)) == [(Verdict.OK, "4 in all")]
    assert judged("cpus", container(PS, cpus=4.5)) == [
        (Verdict.FAILED, "4 in all, and ps/0 asks for 4.5; lower `cpus`")
    ]
    ((verdict, words),) = judged("cpus", container(PS, cpus=2.5), container(WORKER, cpus=2.0))
    assert (verdict, words.partition(";")[0]) == (Verdict.WARNING, "4 in all, and ps/0, worker/0 may use 4.5")
    assert judged("cpus", container(PS, cpus=1.0), engine=replace(ENGINE, limits_cpus=False))[0][0] is Verdict.FAILED


def test_gpus() -> None:
    one, all_of_them = container(PS, gpus=1), container(WORKER, gpus=-1)
    can = replace(ENGINE, gives_gpus=True)
    assert judged("gpus") == []
    assert judged("gpus", one)[0][0] is Verdict.FAILED
    assert "ps/0 asks for GPUs" in judged("gpus", one)[0][1]
    assert judged("gpus", one, system=replace(SYSTEM, gpu_tools=True))[0][0] is Verdict.OK
    assert judged("gpus", all_of_them, engine=can, system=replace(SYSTEM, gpus=2)) == [(Verdict.OK, "2 in all")]
    assert judged("gpus", container(PS, gpus=3), engine=can, system=replace(SYSTEM, gpus=2))[0][0] is Verdict.FAILED
    ((verdict, words),) = judged("gpus", one, all_of_them, engine=can, system=replace(SYSTEM, gpus=2))
    assert verdict is Verdict.WARNING
    assert "the same GPUs" in words


def test_devices() -> None:
    one, both = container(PS, devices=("/dev/dri",)), container(WORKER, devices=("/dev/kfd", "/dev/dri"))
    at = replace(SYSTEM, devices=frozenset({"/dev/dri", "/dev/dri/card0"}))
    assert judged("devices", system=at) == []
    assert judged("devices", one, both) == [], "it is not known which devices the host has"
    assert judged("devices", one, system=at) == [(Verdict.OK, "/dev/dri")]
    fix = "load the driver there, or leave it out of `devices`"
    assert judged("devices", one, both, system=at) == [(Verdict.FAILED, f"it has no /dev/kfd, for worker/0; {fix}")]
    none = replace(SYSTEM, devices=frozenset({"/dev/null"}))
    what = "it has no /dev/dri and no /dev/kfd, for ps/0, worker/0"
    assert judged("devices", one, both, system=none) == [(Verdict.FAILED, f"{what}; {fix}")]


def test_the_address_that_ports_are_published_on() -> None:
    ((verdict, words),) = judged("address", system=replace(SYSTEM, addresses=("127.0.0.1", "192.168.1.5", "10.9.9.9")))
    assert verdict is Verdict.FAILED
    assert words.startswith("it has no address 10.0.0.11, only 192.168.1.5, 10.9.9.9; set `bind`")
    assert judged("address", system=replace(SYSTEM, addresses=None))[0][0] is Verdict.NOTE
    everywhere = replace(container(PS), docker=DockerOptions(IMAGE, address="0.0.0.0"))
    assert judged("address", everywhere) == [(Verdict.OK, "all of its networks")]


OURS: Any = {"cluster": "linear", "task": "ps/0"}


@pytest.mark.parametrize(
    ("containers", "listeners", "expected"),
    [
        ([], [], [(Verdict.OK, "2222 free")]),
        ([], [Listener("10.0.0.12", 2222, "nc (pid 1)")], [(Verdict.OK, "2222 free")]),
        ([], [Listener("*", 2222, "nc (pid 1)")], [(Verdict.FAILED, "10.0.0.11:2222 is taken by nc (pid 1)")]),
        ([], [Listener("*", 2222)], [(Verdict.FAILED, "10.0.0.11:2222 is taken by another program")]),
        ([there("web", ("0.0.0.0", 2222))], [], [(Verdict.FAILED, "10.0.0.11:2222 is taken by the container web")]),
        (
            [there("web", ("10.0.0.11", 2222))],
            [Listener("10.0.0.11", 2222, "docker-proxy (pid 1)")],
            [(Verdict.FAILED, "10.0.0.11:2222 is taken by the container web")],
        ),
        ([there("web", ("10.0.0.12", 2222))], [], [(Verdict.OK, "2222 free")]),
        ([there("web", ("0.0.0.0", 2222), running=False)], [], [(Verdict.OK, "2222 free")]),
        (
            [there("x", ("10.0.0.11", 2222), **OURS)],
            [Listener("10.0.0.11", 2222)],
            [(Verdict.OK, "2222 held by ps/0")],
        ),
        (
            [there("x", ("10.0.0.11", 2222), cluster="other", task="ps/0")],
            [],
            [(Verdict.FAILED, "10.0.0.11:2222 is taken by the container x")],
        ),
        ([there("x", ("10.0.0.11", 2222), check="linear")], [Listener("10.0.0.11", 2222)], [(Verdict.OK, "2222 free")]),
    ],
    ids=[
        "free", "other-address", "program", "program-of-another-user", "container-everywhere", "container-and-its-proxy",
        "container-elsewhere", "container-stopped", "own", "another-cluster", "left-of-a-check",
    ],
)  # fmt: skip
def test_ports(
    containers: Sequence[ContainerSummary], listeners: Sequence[Listener], expected: list[tuple[Verdict, str]]
) -> None:
    engine = replace(ENGINE, containers=tuple(containers))
    findings = judged("ports", container(PS), engine=engine, system=replace(SYSTEM, listeners=tuple(listeners)))
    assert [(verdict, words.partition(";")[0]) for verdict, words in findings] == expected


def test_ports_are_checked_against_containers_without_ss_and_proc() -> None:
    findings = judged("ports", container(PS), system=replace(SYSTEM, listeners=None))
    assert [verdict for verdict, _ in findings] == [Verdict.OK, Verdict.NOTE]


def test_an_evaluator_takes_no_port() -> None:
    evaluator = Task("evaluator", 0, "evaluator", "h1", "10.0.0.11", 2224)
    assert judged("ports", container(evaluator), system=replace(SYSTEM, listeners=(Listener("*", 2224),))) == []


def test_names_and_strays() -> None:
    theirs, ours = there("tfprov-linear-ps-0"), there("tfprov-linear-worker-0", cluster="linear", task="worker/0")
    moved = there("tfprov-linear-worker-1", cluster="linear", task="worker/1", running=False)
    findings = judged("containers", engine=replace(ENGINE, containers=(theirs, ours, moved, there("web"))))
    assert [verdict for verdict, _ in findings] == [Verdict.FAILED, Verdict.NOTE]
    assert findings[0][1].startswith("the container tfprov-linear-ps-0 (0123456789ab) is not ours, and ps/0 will be")
    assert findings[1][1] == "worker/1 is here and is not wanted here: `tfprov up` removes it"


@pytest.mark.parametrize(
    ("name", "notes"), [("tfprov-linear-worker-0", []), ("tfprov-linear-worker-7", ["containers"])]
)
def test_the_former_name_of_a_host_has_no_strays_of_its_own(name: str, notes: list[str]) -> None:
    ours = there("tfprov-linear-worker-0", cluster="linear", task="worker/0")
    facts = HostFacts("h1", "SSH", SYSTEM, ClockOffset(0, 0.1), replace(ENGINE, containers=(ours,)), "")
    on_old = replace(facts, host="old", engine=replace(ENGINE, containers=(replace(ours, name=name),)))
    made = make_context("worker: {hosts: {h1: }, vars: {tfprov: {cluster: linear, strategy: single, command: [sh]}}}")
    context = replace(made, wanted=(), left=frozenset({"old"}))
    findings = Collected(context, {"h1": facts, "old": on_old}, {}).findings()
    assert [it.check for it in findings["old"]] == notes


def test_a_delivery_of_check_forgets_where_a_host_was_before_unless_something_answers_there(tmp_path: Path) -> None:
    way = ConnectionSettings("h1", Position("here"), "10.0.0.11", None, None, local=False)
    made = make_context("worker: {hosts: {h1: }, vars: {tfprov: {cluster: linear, strategy: single, command: [sh]}}}")
    record = HostRegistry(tmp_path)
    former = {"h1 (10.0.0.8)": way, "h1 (10.0.0.9)": way}
    context = replace(made, registry=record, connections={"h1": way}, former=former)
    Collected(context, {"h1 (10.0.0.8)": Unreachable("h1 (10.0.0.8)", "no answer")}, {}).remember(["h1"])
    assert set(record.read()) == {"h1", "h1 (10.0.0.9)"}


def test_an_image_that_is_missing_is_no_fault() -> None:
    ((verdict, words),) = judged("image", engine=BARE)
    assert verdict is Verdict.NOTE
    assert "`tfprov image deliver`" in words
    assert "`tfprov check --deliver`" in words


def test_an_image_whose_name_was_moved_is_reported_and_what_is_made_of_one_is_made_by_its_id() -> None:
    ((verdict, words),) = judged("image", engine=replace(BARE, moved=frozenset({IMAGE})))
    assert (verdict, words.partition(";")[0]) == (Verdict.WARNING, "the image 1 is not the one that was delivered")
    context: Any = None  # nothing is asked
    facts = HostFacts("h1", "SSH", SYSTEM, ClockOffset(0, 0.1), replace(ENGINE, image_ids={IMAGE: "sha256:aa"}), "")
    by_id = Collected(context, {"h1": facts}, {}).by_id(container(PS, memory=5))
    assert by_id == replace(container(PS), docker=DockerOptions("sha256:aa", address="10.0.0.11", memory=5))


@pytest.mark.parametrize(
    ("platforms", "images", "pulled", "expected"),
    [
        ({"a": "linux/amd64", "b": "linux/amd64"}, [], False, {}),
        ({"a": "linux/amd64"}, ["linux/amd64"], False, {}),
        ({"a": "linux/arm64"}, ["linux/amd64"], False, {"a": "linux/arm64, and the image is linux/amd64"}),
        (
            {"a": "linux/arm64", "b": "linux/amd64", "c": "linux/amd64"},
            [],
            False,
            {"a": "linux/arm64, and b, c are linux/amd64"},
        ),
        ({"a": "linux/arm64", "b": "linux/amd64"}, [], False, {"b": "linux/amd64, and a is linux/arm64"}),
    ],
    ids=["alike", "as-the-image", "not-as-the-image", "mixed", "one-of-each"],
)
def test_architectures(platforms: dict[str, str], images: list[str], pulled: bool, expected: dict[str, str]) -> None:
    findings = architectures(platforms, images, pulled=pulled)
    assert set(findings) == set(platforms)
    assert {it.check for it in findings.values()} == {"architecture"}
    assert {host: it.what for host, it in findings.items() if it.verdict is Verdict.FAILED} == expected


def test_an_image_that_is_pulled_may_be_for_several() -> None:
    findings = architectures({"a": "linux/arm64", "b": "linux/amd64"}, ["linux/arm64", "linux/amd64"], pulled=True)
    assert [it.verdict for it in findings.values()] == [Verdict.OK, Verdict.WARNING]


# -- processes of this machine ----------------------------------------------------------------------------------------


def test_a_machine_for_processes() -> None:
    wanted = [("127.0.0.1", 2222), ("127.0.0.1", 2223)]
    system = replace(SYSTEM, listeners=(Listener("*", 2222), Listener("127.0.0.1", 2223, "nc (pid 3)")))
    findings = list(local(system, "/home", lambda _, port: "ps/0" if port == 2222 else None, wanted))
    assert [(it.check, it.verdict.value) for it in findings] == [
        ("cpu", "ok"),
        ("disk", "ok"),
        ("memory", "ok"),
        ("ports", "failed"),
        ("ports", "ok"),
    ]
    assert findings[-1].what == "2222 held by ps/0"
    assert [it.verdict for it in local(System("x86_64"), "/home", lambda *_: None, wanted)] == [Verdict.NOTE] * 4


INVENTORY = """\
all:
  vars:
    tfprov: {cluster: here, command: [python, x.py], port: PORT}
  children:
    ps: {hosts: {localhost: }}
    worker: {hosts: {localhost: }}
"""


def test_processes_are_checked_by_the_same_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    port = free_ports(2)
    with socket.create_server(("127.0.0.1", port)):
        text = INVENTORY.replace("PORT", f"{port}, data_service: {{address: '127.0.0.1:{port + 1}'}}")
        (tmp_path / "inventory.yml").write_text(text)
        result = run_command(capsys, "check", "-i", str(tmp_path / "inventory.yml"))
    assert result.code == 1
    assert f"failed   localhost  127.0.0.1:{port} is taken by " in result.out
    nobody = f"data_service/0 at 127.0.0.1:{port + 1}: nothing answers there; start the service, open its port, or"
    assert f"failed   localhost  {nobody} correct `data_service.address`" in result.out
    assert result.out.startswith("here: 1 ps, 1 worker on 1 host\n\nCHECK")
    assert not (tmp_path / "state").exists(), "nothing is made"
    again = json.loads(run_command(capsys, "check", "--json", "-i", str(tmp_path / "inventory.yml")).out)
    assert [it["verdict"] for it in again["hosts"]["localhost"] if it["check"] == "ports"] == ["ok"]


# -- the matrix -------------------------------------------------------------------------------------------------------

OUTCOMES = (
    "ok", "refused", "no answer", "no route", "no address", "closed", "silent", "other", "nothing",
    "error: [Errno 1] x",
)  # fmt: skip


@given(st.sampled_from(OUTCOMES), st.sampled_from(["h1", "h2"]))
def test_every_outcome_but_ok_is_a_failure_with_a_fix(outcome: str, host: str) -> None:
    actual = judge_cell(Cell(host, PS, outcome))
    if outcome == "ok":
        assert actual is None
    else:
        assert actual is not None
        assert actual.verdict is Verdict.FAILED
        assert "ps/0 at 10.0.0.11:2222" in actual.what
        assert "h1" in actual.fix or "port 2222" in actual.fix


def test_a_firewall_between_hosts_is_distinguished_from_one_on_the_host() -> None:
    between, own = judge_cell(Cell("h2", PS, "no answer")), judge_cell(Cell("h1", PS, "no answer"))
    assert between is not None
    assert own is not None
    assert "open port 2222 on h1" in between.fix
    assert "docker0" in own.fix


MISSING = "the image is not there"
CELLS = (
    Cell("h1", PS, "ok"),
    Cell("h1", ELSEWHERE, "refused"),
    Cell("h2", PS, "ok"),
    Cell("h2", ELSEWHERE, "refused"),
    Cell("h3", PS, UNTRIED, Reason(MISSING, "h3")),
    Cell("h3", ELSEWHERE, UNTRIED, Reason(MISSING, "h3")),
)


def test_the_table_has_a_row_for_each_host_and_a_column_for_each_task() -> None:
    assert table(CELLS) == [
        ("FROM", "ps/0", "worker/1"),
        ("h1", "ok", "refused"),
        ("h2", "ok", "refused"),
        ("h3", "-", "-"),
    ]
    assert table([Cell("h1", PS, "error: [Errno 1] x")])[1] == ("h1", "error")


def test_failures_with_the_same_cause_are_reported_once() -> None:
    assert [(hosts, it.what) for hosts, it in failures(CELLS[:2])] == [(["h1"], "worker/1 at 10.0.0.12:2222: refused")]
    (hosts, _), *others = failures([Cell("h1", ELSEWHERE, "closed"), Cell("h3", ELSEWHERE, "closed")])
    assert (hosts, others) == (["h1", "h3"], [])
    more = Cell("h1", PS, UNTRIED, Reason(MISSING, "h1"))
    assert reasons([*CELLS, more, Cell("h1", PS, UNTRIED, Reason("locked"))]) == {MISSING: ["h3", "h1"], "locked": []}


# -- all of it --------------------------------------------------------------------------------------------------------


def test_a_host_that_cannot_be_reached_has_the_connections_own_words() -> None:
    error = Unreachable("h1", "unknown host key X", "compare it; then this")
    assert lost("h1", error) == failed("reach", "unknown host key X", "compare it; then this")
    through = Unreachable("h1: gateway bastion", "refused", "start sshd")
    assert lost("h1", through) == failed("reach", "gateway bastion: refused", "start sshd")
    assert gone("h1", error).verdict is Verdict.WARNING


@pytest.mark.parametrize(
    ("findings", "cells", "unreachable", "code"),
    [
        ([ok("cpu", "x"), warning("clock", "x"), note("image", "x")], CELLS[:1], False, 0),
        ([failed("ports", "x")], (), False, 1),
        ([ok("cpu", "x")], CELLS[:2], False, 1),
        ([ok("cpu", "x")], CELLS[4:], False, 0),
        ([failed("reach", "x")], (), True, 4),
    ],
    ids=["warnings", "failed", "address", "untried", "unreachable"],
)
def test_the_exit_code(findings: list[Finding], cells: tuple[Cell, ...], unreachable: bool, code: int) -> None:
    checked = CheckReport("linear", {"h1": tuple(findings)}, cells, frozenset({"h1"} if unreachable else ()))
    assert checked.exit_code == code


def test_the_json_report() -> None:
    checked = CheckReport("linear", {"h1": (warning("clock", "late", "set it"),)}, CELLS[1:2])
    assert checked.to_dict() == {
        "cluster": "linear",
        "hosts": {"h1": [{"check": "clock", "verdict": "warning", "what": "late", "fix": "set it"}]},
        "matrix": [
            {
                "from": "h1", "task": "worker/1", "host": "h2", "address": "10.0.0.12:2222", "outcome": "refused",
                "verdict": "failed", "what": "worker/1 at 10.0.0.12:2222: refused",
                "fix": "open port 2222 on h2, or correct `address` of h2",
            }
        ],
    }  # fmt: skip


def test_a_pair_that_connects_and_one_that_was_not_tried_are_plain_data() -> None:
    place = {"from": "h1", "task": "worker/1", "host": "h2", "address": "10.0.0.12:2222"}
    assert Cell("h1", ELSEWHERE, "ok").to_dict() == {**place, "outcome": "ok", "verdict": "ok", "what": "", "fix": ""}
    assert Cell("h1", ELSEWHERE, UNTRIED, Reason("is locked", "h1")).to_dict() == {
        **place, "outcome": "-", "verdict": "note", "what": "worker/1 was not tried: h1: is locked", "fix": ""
    }  # fmt: skip
    outside = Task("data_service", 0, "data_service", "", "10.0.0.9", 5050)
    fix = "start the service, open its port, or correct `data_service.address`"
    assert judge_cell(Cell("h1", outside, "error: x")) == failed("network", "data_service/0 at 10.0.0.9:5050: x", fix)


def test_findings_are_reported_in_one_order() -> None:
    checks = [
        *(
            "reach",
            "engine",
            "architecture",
            "cpu",
            "clock",
            "disk",
            "memory",
            "cpus",
            "gpus",
            "devices",
            "address",
            "ports",
        ),
        *("containers", "image", "command", "tensorflow", "checkpoints", "data", "lock", "network"),
    ]
    actual = [ok(check, "x") for check in reversed(checks)]
    assert [it.check for it in in_order(actual)] == checks


def shown(checked: CheckReport, *, colour: bool = False) -> list[str]:
    return list(lines(checked, "linear: 1 ps", Printer(live=False, colour=colour)))


def test_the_printed_report() -> None:
    hosts: dict[str, tuple[Finding, ...]] = {f"h{n}": (ok("reach", "SSH as x"), ok("cpu", "good")) for n in range(1, 8)}
    hosts["h7"] = (failed("reach", "no answer", "look"),)
    own = "let its own containers (docker0) in at port 2222, or correct `address` of h2"
    assert shown(CheckReport("linear", hosts, CELLS, frozenset({"h7"}))) == [
        "linear: 1 ps",
        "",
        "CHECK  VERDICT  HOSTS                      FOUND",
        "reach  ok       h1, h2, h3, h4 and 2 more  SSH as x",
        "       failed   h7                         no answer; look",
        "cpu    ok       h1, h2, h3, h4 and 2 more  good",
        "",
        "every task's address, tried from every host:",
        "",
        "FROM  ps/0  worker/1",
        "h1    ok    refused",
        "h2    ok    refused",
        "h3    -     -",
        "",
        "failed   h1 does not reach worker/1 at 10.0.0.12:2222: refused; open port 2222 on h2, or correct `address` of h2",
        f"failed   h2 does not reach worker/1 at 10.0.0.12:2222: refused; {own}",
        "note     not tried: h3: the image is not there",
        "",
        "7 hosts looked at, 2 of 4 addresses reached, 2 not tried: 3 failed",
    ]


def test_colours_change_no_word() -> None:
    checked = CheckReport("linear", {"ok-host": (ok("reach", "SSH as ok"), warning("clock", "late"))}, CELLS)
    coloured = shown(checked, colour=True)
    assert [click.unstyle(line) for line in coloured] == shown(checked)
    assert any("\x1b[33mwarning\x1b[0m" in line for line in coloured)


def test_a_single_machine_is_called_by_its_name() -> None:
    assert "cpu    ok       h1     good" in shown(CheckReport("linear", {"h1": (ok("cpu", "good"),)}))
    assert shown(CheckReport("linear", {"h1": (ok("cpu", "good"),)}))[-1] == "1 host looked at: nothing is in the way"


def test_the_words_of_an_error_of_delivery_are_without_its_host() -> None:
    assert lost("h1", HostError("h1", "what", "fix")).what == "what"


# -- the lines about a host and what to do about it, in full ----------------------------------------------------------

PRUNE = "free some there, for example with `docker system prune`"
GPUS = replace(ENGINE, gives_gpus=True)
NOT_OURS = there("tfprov-linear-ps-0")
SHARED_GPUS = (
    "ps/0, worker/0 get the same GPUs: an engine gives every container the first ones; "
    "set CUDA_VISIBLE_DEVICES in `env` of each, beside `gpus: all`; or TF_FORCE_GPU_ALLOW_GROWTH=true, to share them"
)


def on_gpus(devices: str, task: Task) -> Container:
    return replace(container(task, gpus=-1), env={"CUDA_VISIBLE_DEVICES": devices})


@pytest.mark.parametrize(
    ("check", "wanted", "engine", "system", "expected"),
    [
        ("engine", (), replace(ENGINE, driver="vfs"), SYSTEM,
         "Docker 24.0.7 (API 1.43), vfs; set it up with overlay2: vfs copies every layer whole, for every container"),
        ("disk", (), ENGINE, replace(SYSTEM, free=GIB - 1), f"only 1024.0 MiB free in /var/lib/docker; {PRUNE}"),
        ("disk", (), BARE, replace(SYSTEM, free=3 * GIB - 1),
         f"only 3.0 GiB free in /var/lib/docker; an image with TensorFlow takes 2 to 3 GiB: {PRUNE}"),
        ("disk", (), ENGINE, replace(SYSTEM, free=None), "not checked: the host does not say how much there is"),
        ("memory", (container(PS, memory=1),), replace(ENGINE, limits_memory=False), SYSTEM,
         "its kernel limits no memory: `memory` has no effect; boot it with `cgroup_enable=memory`"),
        ("memory", (container(PS, memory=17 * GIB),), ENGINE, SYSTEM,
         ("16.0 GiB in all, and ps/0 may use 17.0 GiB; "
         "lower `memory`: without it, the kernel ends tasks before their limit is reached")),
        ("memory", (container(PS, memory=16 * GIB),), ENGINE, SYSTEM, "16.0 GiB in all"),
        ("cpus", (container(PS, cpus=1.0),), replace(ENGINE, limits_cpus=False), SYSTEM,
         "its kernel limits no CPUs, and the engine refuses `cpus`; remove `cpus` for this host"),
        ("cpus", (container(PS, cpus=2.0), container(WORKER, cpus=2.0)), ENGINE, SYSTEM, "4 in all"),
        ("cpus", (container(PS, cpus=2.0), container(WORKER, cpus=2.5)), ENGINE, SYSTEM,
         "4 in all, and ps/0, worker/0 may use 4.5; lower `cpus`, or use fewer tasks"),
        ("cpus", (container(PS, cpus=2.5), container(WORKER, cpus=2.5)), ENGINE, SYSTEM,
         "4 in all, and ps/0, worker/0 may use 5; lower `cpus`, or use fewer tasks"),
        ("cpus", (container(PS, cpus=5.0), container(WORKER, cpus=6.0)), ENGINE, SYSTEM,
         "4 in all, and ps/0 asks for 5, worker/0 asks for 6; lower `cpus`"),
        ("gpus", (container(PS, gpus=1), container(WORKER, gpus=1)), ENGINE, SYSTEM,
         ("ps/0, worker/0 asks for GPUs, and its engine can give none; "
         "install the NVIDIA driver and nvidia-container-toolkit there, or unset `gpus`")),
        ("gpus", (container(PS, gpus=3),), GPUS, replace(SYSTEM, gpus=2),
         "it has 2, and a task asks for 3; lower `gpus`"),
        ("gpus", (container(PS, gpus=1), container(WORKER, gpus=2)), GPUS, replace(SYSTEM, gpus=2),
         SHARED_GPUS),
        ("gpus", (on_gpus("0,1", PS), on_gpus("2", WORKER)), GPUS, replace(SYSTEM, gpus=3), "3 in all"),
        ("gpus", (on_gpus("0", PS), on_gpus("0,1", WORKER)), GPUS, SYSTEM, SHARED_GPUS),
        ("gpus", (on_gpus("0", PS), on_gpus("", WORKER)), GPUS, SYSTEM, SHARED_GPUS),
        ("gpus", (on_gpus("0,3", PS), on_gpus("2", WORKER)), GPUS, replace(SYSTEM, gpus=3),
         "it has 3, which does not go with CUDA_VISIBLE_DEVICES=0,3 of ps/0; count from 0"),
        ("gpus", (container(PS, gpus=1),), GPUS, SYSTEM, "its engine can give GPUs"),
        ("address", (), ENGINE, replace(SYSTEM, addresses=None),
         "not checked: neither `ip` nor /proc says which addresses it has"),
        ("address", (), ENGINE, replace(SYSTEM, addresses=("127.0.0.1",)),
         "it has no address 10.0.0.11, only the loopback; set `bind` to the one that leads to it, or correct `address`"),
        ("containers", (), replace(ENGINE, containers=(NOT_OURS,)), SYSTEM,
         ("the container tfprov-linear-ps-0 (0123456789ab) is not ours, and ps/0 will be called so; "
         "rename it, or choose another `cluster`")),
        ("containers", (), replace(ENGINE, containers=(there("x", cluster="linear", task="worker/1"),)), SYSTEM,
         "worker/1 runs here and is not wanted here: `tfprov up` removes it"),
        ("image", (), BARE, SYSTEM, "not there yet; `tfprov image deliver` brings it, or `tfprov check --deliver`"),
        ("cpu", (), ENGINE, System("amd64", frozenset({"sse"})),
         ("amd64 without AVX: TensorFlow's wheels end with `Illegal instruction`; "
         "use another host (or CPU type of the virtual machine), or a TensorFlow built without AVX")),
        ("cpu", (), ENGINE, System("amd64"), "amd64; whether it has AVX was not checked: there is no /proc/cpuinfo"),
        ("cpu", (), ENGINE, System(), "not checked: the host does not say what it is"),
    ],
)  # fmt: skip
def test_a_finding_is_reported_in_full(
    check: str, wanted: tuple[Container, ...], engine: EngineFacts, system: System, expected: str
) -> None:
    assert [words for _, words in judged(check, *wanted, engine=engine, system=system)] == [expected]


def test_what_is_not_checked_and_what_is_scarce_on_this_machine_is_reported_in_full() -> None:
    nothing = System("x86_64", frozenset({"avx"}))
    assert [str(it) for it in local(nothing, "/home", lambda *_: None, ())][1:] == [
        "not checked: the host does not say how much there is",
        "not checked: the host does not say how much there is",
        "not checked: neither `ss` nor /proc says who listens",
    ]
    little = replace(SYSTEM, free=GIB - 1, memory=GIB - 1)
    assert [str(it) for it in local(little, "/home", lambda *_: None, [("127.0.0.1", 2222)])][1:] == [
        "only 1024.0 MiB free in /home; free some: checkpoints are saved there",
        "only 1024.0 MiB free; end other programs, or use fewer tasks",
        "2222 free",
    ]
    enough = replace(SYSTEM, free=GIB, memory=GIB, listeners=(Listener("*", 2222, "nc (pid 1)"),))
    assert [str(it) for it in local(enough, "/home", lambda *_: None, [("127.0.0.1", 2222)])][1:] == [
        "1.0 GiB free in /home",
        "1.0 GiB free",
        "127.0.0.1:2222 is taken by nc (pid 1); stop it, or choose another `port`",
    ]
    only_containers = judged("ports", container(PS), system=replace(SYSTEM, listeners=None))
    assert only_containers[1][1] == "only checked against containers: neither `ss` nor /proc says who else listens"
    late = clock(ClockOffset(-60.0, 0.1))
    assert late.fix == "set it there, for example with `timedatectl set-ntp true`"


def test_hosts_of_another_architecture_get_a_fix() -> None:
    platforms = dict.fromkeys("abcde", "linux/amd64") | {"f": "linux/arm64"}
    assert str(architectures(platforms, [], pulled=False)["f"]) == (
        "linux/arm64, and a, b, c and 2 more are linux/amd64; take the host out of the cluster, or use others like it"
    )
    assert str(architectures(platforms, [], pulled=True)["f"]) == (
        "linux/arm64, and a, b, c and 2 more are linux/amd64; the image must be for both"
    )
    assert architectures({}, ["linux/amd64"], pulled=False) == {}
    three = dict.fromkeys("abc", "linux/amd64") | {"f": "linux/arm64"}
    assert architectures(three, [], pulled=False)["f"].what == "linux/arm64, and a, b, c are linux/amd64"


@pytest.mark.parametrize(
    ("outcome", "what", "fix"),
    [
        ("refused", "refused", "open port 2222 on h1, or correct `address` of h1"),
        ("no answer", "no answer", "a firewall drops it: open port 2222 on h1; or correct `address` of h1"),
        ("no route", "no route to host", ("correct `address` of h1, or look at the network; "
         "a firewall may say so, too: open port 2222 on h1")),
        ("no address", "no address inside a container", "use an IPv4 address as `address` of h1"),
        ("closed", "closed at once", "look at the engine of h1: the port does not lead to its container"),
        ("silent", "connected, and nothing comes back", "look at the MTU of the network that leads to h1"),
        ("other", "something else answers there", "correct `address` of h1"),
        ("nothing", "nothing serves there", "open port 2222 on h1, or correct `address` of h1"),
        ("error: [Errno 1] x", "[Errno 1] x", "correct `address` of h1"),
    ],
)  # fmt: skip
def test_the_fix_for_an_unreachable_address(outcome: str, what: str, fix: str) -> None:
    assert judge_cell(Cell("h2", PS, outcome)) == failed("network", f"ps/0 at 10.0.0.11:2222: {what}", fix)
    own = judge_cell(Cell("h1", PS, outcome))
    assert own is not None
    assert own.fix == fix.replace("open port 2222 on h1", "let its own containers (docker0) in at port 2222")


def test_tasks_that_are_root_in_their_containers_are_mentioned() -> None:
    users = {"": True, "0": True, "root": True, "0:100": True, "root:users": True, "1000": False, "trainer": False}
    assert {user: is_root(user) for user in users} == users
    assert as_root(["ps/0"]) == "ps/0 runs as root in its container"
    assert as_root(["ps/0", "worker/0"]) == "ps/0, worker/0 run as root in their containers"


def test_a_command_that_cannot_start_is_reported_with_its_tasks() -> None:
    container = MemoryLab().context.wanted[0]
    container = replace(container, spec={**container.spec, "command": ["python", "x.py"]})
    tasks = ["worker/0", "worker/1"]
    fault = Fault("there is no x.py", "correct it")
    assert list(host_rules.command(container, tasks, fault)) == [
        failed("command", "worker/0, worker/1: there is no x.py", "correct it")
    ]
    assert list(host_rules.command(container, tasks, None)) == [ok("command", "python x.py")]
    assert list(host_rules.command(replace(container, spec={}), tasks, fault)) == []
