"""`tfprov check` against hosts in containers: its findings, and that it leaves nothing behind."""

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.images import Images
from tests.support.lab_cluster import LabCluster, open_lab_cluster, standin
from tests.support.testhost import Host
from tests.support.testhosts import Lab
from tests.support.waiting import LONG, until

SERVER = (
    "import socket, threading; server = socket.create_server(('0.0.0.0', 2222)); "
    "[threading.Timer(5, server.accept()[0].close).start() for _ in iter(int, 1)]"
)
"""Waits to be spoken to, as a TensorFlow server does."""
PORT = 2222


@pytest.fixture
def remote_cluster(lab: Lab, tmp_path: Path, cache: Path) -> Iterator[LabCluster]:
    for made in open_lab_cluster(lab, tmp_path):
        made.env["XDG_CACHE_HOME"] = str(cache)
        yield made


@pytest.fixture
def three(remote_cluster: LabCluster, python_archive: Path) -> LabCluster:
    """A ps and two workers on three hosts, of an image with Python."""
    return written(remote_cluster, python_archive)


def written(remote_cluster: LabCluster, archive: Path, **settings: Any) -> LabCluster:
    one, two, three, _ = remote_cluster.lab.hosts
    whole = {"image": {"archive": str(archive)}, "command": ["python3", "-c", SERVER], "stop_grace": 0, **settings}
    remote_cluster.write({"ps": [one], "worker": [two, three]}, whole)
    return remote_cluster


def check(remote_cluster: LabCluster, *arguments: str, code: int = 0) -> dict[str, Any]:
    """Return what `check --json` says; lines on the standard error come before it."""
    printed = remote_cluster("check", "--json", *arguments, code=code)
    result: dict[str, Any] = json.loads(printed[printed.index("{\n") :])
    return result


def findings_of(result: dict[str, Any], host: str, kind: str = "") -> list[tuple[str, str]]:
    """Return verdict and words of the findings on a host, of one kind of check or of all."""
    return [
        (it["verdict"], f"{it['what']}; {it['fix']}" if it["fix"] else it["what"])
        for it in result["hosts"][host]
        if it["check"] == kind or not kind
    ]


def bad(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return everything that is not fine: host, check and words."""
    return [
        (host, it["check"], it["what"])
        for host, findings in result["hosts"].items()
        for it in findings
        if it["verdict"] not in ("ok", "note")
    ]


def outcomes(result: dict[str, Any]) -> dict[tuple[str, str], str]:
    return {(cell["from"], cell["task"]): cell["outcome"] for cell in result["matrix"]}


def images_on(lab: Lab) -> list[set[str]]:
    return [{str(image.id) for image in host.client.images.list(all=True)} for host in lab.hosts]


def delivered(three: LabCluster) -> LabCluster:
    """Return the cluster with its image on all hosts; that a check then has nothing to say is the first test below."""
    three("image", "deliver")
    return three


def test_hosts_that_are_as_they_should_be(three: LabCluster) -> None:
    result = check(three, "--deliver")
    assert bad(result) == []
    assert set(result["hosts"]) == {"node1", "node2", "node3"}
    tasks = ("ps/0", "worker/0", "worker/1")
    assert outcomes(result) == {(f"node{n}", task): "ok" for n in (1, 2, 3) for task in tasks}
    before = images_on(three.lab)
    again = three("check")
    assert images_on(three.lab) == before
    assert all(ids == [] for ids in three.containers().values())
    assert re.search(r"^reach +ok +all 3 +SSH as trainer$", again, re.MULTILINE)
    assert re.search(r"^engine +ok +all 3 +Docker \S+ \(API [\d.]+\), overlay2$", again, re.MULTILINE)
    assert re.search(r"^ports +ok +all 3 +2222 free$", again, re.MULTILINE)
    assert re.search(r"^command +ok +all 3 +python3 -c import socket", again, re.MULTILINE)
    assert re.search(r"^node3 +ok +ok +ok$", again, re.MULTILINE)
    assert again.endswith("3 hosts looked at, 9 of 9 addresses reached: nothing is in the way\n")


def test_an_image_that_is_not_there_is_no_fault_and_leaves_addresses_untried(three: LabCluster) -> None:
    for host in three.lab.hosts:
        host.forget_images()
    printed = three("check")
    brings = "`tfprov image deliver` brings it, or `tfprov check --deliver`"
    assert re.search(rf"^image +note +all 3 +not there yet; {brings}$", printed, re.MULTILINE)
    assert re.search(
        r"^command +note +all 3 +python3 -c .*: not known until the image is there$", printed, re.MULTILINE
    )
    assert f"note     not tried: node1, node2, node3: the image is not there: {brings}\n" in printed
    assert "FROM" not in printed, "a table without a single try says nothing"
    assert all(ids == [] for ids in three.containers().values())
    assert all(not names for names in images_on(three.lab))


def test_a_command_that_the_image_does_not_have_is_found_and_nothing_of_it_is_started(
    remote_cluster: LabCluster, python_archive: Path
) -> None:
    written(remote_cluster, python_archive, command=["pyhton3", "-c", SERVER])
    printed = remote_cluster("up", code=2)
    assert re.search(
        r"^\S+inventory\.yml:\d+:\d+: error: `command`: the image has no program pyhton3; did you mean python3\?$",
        printed,
        re.MULTILINE,
    )
    assert "start ps/0 on" not in printed.replace("start    ps/0", "")
    assert all(ids == [] for ids in remote_cluster.containers().values())
    assert findings_of(check(remote_cluster, code=1), "node1", "command") == [
        ("failed", "ps/0: the image has no program pyhton3; did you mean python3?")
    ]
    written(remote_cluster, python_archive, command=["python3", "-c", f"import tensorflow; {SERVER}"])
    result = check(remote_cluster, code=1)
    assert findings_of(result, "node2", "command")[0][0] == "ok"
    assert findings_of(result, "node2", "tensorflow") == [
        ("failed", "python3 has no TensorFlow; install it: `RUN pip install tensorflow` in the image's Dockerfile")
    ]
    assert all(ids == [] for ids in remote_cluster.containers().values())


def test_a_firewall_between_two_hosts_is_found(three: LabCluster) -> None:
    delivered(three)
    one, two, *_ = three.lab.hosts
    one.disturbed = True
    two.drop_from(one, PORT)
    one.run("iptables", "-w", "-I", "DOCKER-USER", "-s", two.address, "-p", "tcp", "-j", "REJECT")
    printed = three("check", code=1)
    dropped = (
        f"node1 does not reach worker/0 at {two.address}:2222: no answer; a firewall drops it: open port 2222 on node2"
    )
    refused = f"node2 does not reach ps/0 at {one.address}:2222: refused; open port 2222 on node1, or correct `address`"
    assert f"failed   {dropped}" in printed
    assert f"failed   {refused}" in printed
    assert "7 of 9 addresses reached: 2 failed" in printed
    assert all(ids == [] for ids in three.containers().values())


def test_an_unreachable_host_has_one_line_and_the_others_are_checked(three: LabCluster) -> None:
    delivered(three)
    three.lab.hosts[1].service("sshd", "stop")
    result = check(three, code=4)
    ((verdict, words),) = findings_of(result, "node2")
    assert verdict == "failed"
    assert re.fullmatch(r"[\d.]+:22 refused the connection; start sshd there, or correct `ansible_port`", words)
    assert [it for it in bad(result) if it[0] != "node2"] == []
    tried = outcomes(result)
    assert {pair for pair, outcome in tried.items() if outcome == "ok"} == {
        (host, task) for host in ("node1", "node3") for task in ("ps/0", "worker/1")
    }
    assert tried["node1", "worker/0"] == "-"


def test_all_problems_of_a_host_are_reported_at_once(three: LabCluster) -> None:
    delivered(three)
    host = three.lab.hosts[2]
    host.hide_docker()
    skewed = "#!/bin/sh\nexec /bin/date -d '+90 seconds' \"$@\"\n"
    host.run("sh", "-c", 'printf "%s" "$0" >/usr/local/bin/date && chmod 755 /usr/local/bin/date', skewed)
    result = check(three, code=1)
    assert [verdict for verdict, _ in findings_of(result, "node3", "reach")] == ["ok"]
    ((verdict, words),) = findings_of(result, "node3", "engine")
    assert (verdict, words) == (
        "failed",
        "Docker is not installed; install it there (Debian: `apt-get install docker.io`)",
    )
    ((verdict, words),) = findings_of(result, "node3", "clock")
    assert verdict == "warning"
    assert re.fullmatch(r"(8[5-9]|9[0-5]) s ahead of this machine; set it there, .*", words)
    assert {host for host, *_ in bad(result)} == {"node3"}


def test_who_has_a_port_is_named(three: LabCluster, images: Images) -> None:
    delivered(three)
    one, two, *_ = three.lab.hosts
    three.lab.load(images.tiny(), [two])
    one.listen(PORT)
    two.client.containers.run(
        images.tiny(), ["sleep", "600"], name="theirs", detach=True, ports={"2222/tcp": (two.address, PORT)}
    )
    result = check(three, code=1)
    fix = "stop it, or choose another `port`"
    assert findings_of(result, "node1", "ports") == [
        ("failed", f"{one.address}:2222 is taken by another program; {fix}")
    ]
    assert findings_of(result, "node2", "ports") == [
        ("failed", f"{two.address}:2222 is taken by the container theirs; {fix}")
    ]
    assert findings_of(result, "node3", "ports") == [("ok", "2222 free")]
    assert [it["outcome"] for it in result["matrix"] if it["task"] == "ps/0"] == ["-", "-", "-"]
    assert [made.name for made in two.client.containers.list()] == ["theirs"]


def test_containers_with_our_names_or_our_labels(three: LabCluster, images: Images) -> None:
    delivered(three)
    one, two, *_ = three.lab.hosts
    three.lab.load(images.tiny(), [one, two])
    one.client.containers.create(images.tiny(), name="tfprov-lab-ps-0")
    two.client.containers.create(images.tiny(), labels={"tfprov.cluster": "lab", "tfprov.task": "worker/7"})
    result = check(three, code=1)
    ((verdict, words),) = findings_of(result, "node1", "containers")
    assert verdict == "failed"
    assert re.fullmatch(r"the container tfprov-lab-ps-0 \(\w{12}\) is not ours, .*; rename it, or .*", words)
    ((verdict, words),) = findings_of(result, "node2", "containers")
    assert (verdict, words) == ("note", "worker/7 is here and is not wanted here: `tfprov up` removes it")
    assert [len(ids) for ids in three.containers().values()] == [1, 1, 0, 0]


def test_tasks_that_run_answer_for_themselves(three: LabCluster) -> None:
    three("up")
    before = three.containers()
    result = check(three)
    assert bad(result) == []
    assert findings_of(result, "node2", "ports") == [("ok", "2222 held by worker/0")]
    assert set(outcomes(result).values()) == {"ok"}
    assert three.containers() == before


def test_a_wrong_address_is_found(three: LabCluster) -> None:
    delivered(three)
    one, two, *_ = three.lab.hosts
    # node2 listens where it should, and the others are sent to node1.
    inventory = yaml.safe_load(three.inventory.read_text())
    wrong = {"address": one.address, "bind": two.address, "port": 2223}
    inventory["all"]["children"]["worker"]["hosts"]["node2"]["tfprov"] = wrong
    inventory["all"]["vars"]["tfprov"]["data_service"] = {"address": f"{one.address}:22"}  # sshd answers there
    three.inventory.write_text(yaml.safe_dump(inventory))
    result = check(three, code=1)
    assert {pair for pair, outcome in outcomes(result).items() if outcome == "refused"} == {
        (f"node{n}", "worker/0") for n in (1, 2, 3)
    }
    assert {outcomes(result)[f"node{n}", "data_service/0"] for n in (1, 2, 3)} == {"ok"}


def test_an_image_without_python_lets_the_host_try(remote_cluster: LabCluster, tiny_archive: Path) -> None:
    one, two, three, _ = remote_cluster.lab.hosts
    settings = {**standin(tiny_archive), "command": ["sh", "task.sh"]}
    remote_cluster.write({"ps": [one], "worker": [two, three]}, settings)
    idle = check(remote_cluster, "--deliver")
    assert set(outcomes(idle).values()) == {"-"}
    assert findings_of(idle, "node1", "network") == [
        ("note", "the image has no python3, so the host itself tried the addresses")
    ]
    remote_cluster("up")
    running = check(remote_cluster)
    assert set(outcomes(running).values()) == {"ok"}
    assert [len(ids) for ids in remote_cluster.containers().values()] == [1, 1, 1, 0]


def test_another_run_that_holds_the_cluster_is_not_disturbed(three: LabCluster) -> None:
    check(three, "--deliver")
    with (three.directory / "state" / "tfprov" / "clusters" / "lab" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = check(three)
        assert bad(result) == []
        assert set(outcomes(result).values()) == {"-"}
        assert "was not tried: cluster lab is in use by" in result["matrix"][0]["what"]
        assert "is in use by" in three("check", "--deliver", code=3)
    three("up")
    with (three.directory / "state" / "tfprov" / "clusters" / "lab" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert set(outcomes(check(three)).values()) == {"ok"}, "tasks that run answer for themselves"


def test_only_some_hosts(three: LabCluster) -> None:
    delivered(three)
    three.lab.hosts[2].service("sshd", "stop")
    result = check(three, "-l", "node1,node2")
    assert set(result["hosts"]) == {"node1", "node2"}
    assert outcomes(result) == {(f"node{n}", task): "ok" for n in (1, 2) for task in ("ps/0", "worker/0")}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_nothing_is_left_of_a_check_that_was_cut_off(three: LabCluster, number: signal.Signals) -> None:
    delivered(three)
    one, two, *_ = three.lab.hosts
    two.drop_from(one, PORT)

    def cut_off() -> bool:
        """Whether the signal came before a check's own end, which is a few seconds after its last stand-in."""
        process = three.start("check")
        until(lambda: process.poll() is not None or all(three.containers()[f"node{n}"] for n in (1, 2, 3)), "stand-ins")
        process.send_signal(number)
        code = process.wait(LONG)
        if number is signal.SIGINT:
            return code == 130
        return code == -signal.SIGKILL and any(three.containers().values())

    until(cut_off, "a check that is cut off while its stand-ins are there")
    if number is signal.SIGKILL:
        three("check", code=1)
    # An engine lists a container until it has removed it. Those that nobody removes are there for two minutes.
    until(lambda: not any(three.containers().values()), "the stand-ins to be gone", seconds=60)


# -- keys -------------------------------------------------------------------------------------------------------------


def answering(three: LabCluster, answer: str, *arguments: str) -> tuple[int, str]:
    """Run `check` at a terminal on which `answer` is typed, and return its exit code and what it printed."""
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    try:
        done = subprocess.run(
            three.command("check", "--trust", *arguments),
            env=three.env, cwd=three.directory, text=True, stdin=theirs, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=LONG, check=False,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)
    assert "Traceback" not in done.stdout
    return done.returncode, done.stdout


def forget(lab: Lab, host: Host) -> str:
    """Take the key of a host out of known_hosts; return its fingerprint."""
    known = lab.bed.known_hosts
    lines = known.read_text().splitlines(keepends=True)
    known.write_text("# mine\n" + "".join(line for line in lines if not line.startswith(f"{host.address} ")))
    return host.run("ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key").split()[1]


def test_an_unknown_key_is_trusted_after_a_yes(three: LabCluster) -> None:
    delivered(three)
    one, known = three.lab.hosts[0], three.lab.bed.known_hosts
    shown = forget(three.lab, one)
    before = known.read_text()
    code, printed = answering(three, "y\n")
    assert code == 0, printed
    assert printed.count("[y/N]") == 1
    assert f"node1 ({one.address}:22) shows a key that is not known yet:\n  ssh-ed25519 {shown}\n" in printed
    assert known.read_text() == f"{before}{one.address} {' '.join(one.public_key.split()[:2])}\n"
    assert bad(check(three)) == []


def test_an_unknown_key_is_not_trusted_after_a_no(three: LabCluster) -> None:
    delivered(three)
    one, known = three.lab.hosts[0], three.lab.bed.known_hosts
    shown = forget(three.lab, one)
    before = known.read_text()
    code, printed = answering(three, "n\n")
    assert code == 4
    assert printed.count("[y/N]") == 1
    assert re.search(
        rf"^reach +failed +node1 +unknown host key ssh-ed25519 {re.escape(shown)}; compare", printed, re.MULTILINE
    )
    assert known.read_text() == before


def test_there_is_no_prompt_without_a_terminal(three: LabCluster) -> None:
    shown = forget(three.lab, three.lab.hosts[0])
    before = three.lab.bed.known_hosts.read_text()
    printed = three("check", "--trust", code=2)
    assert printed.startswith(f"error: answer needed: is ssh-ed25519 {shown} the key of node1")
    assert "--accept-new" in printed
    assert three.lab.bed.known_hosts.read_text() == before


def test_a_changed_host_key_causes_no_prompt(three: LabCluster) -> None:
    three.lab.hosts[0].change_key()
    before = three.lab.bed.known_hosts.read_text()
    code, printed = answering(three, "y\ny\n")
    assert code == 4
    assert "[y/N]" not in printed
    assert re.search(r"^reach +failed +node1 +THE HOST KEY HAS CHANGED", printed, re.MULTILINE)
    assert three.lab.bed.known_hosts.read_text() == before
