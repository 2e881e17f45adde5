"""Runs that go on without their terminal: `run --detach`, `attach`, a killed supervisor, a terminal that is closed."""

import contextlib
import json
import os
import signal
from pathlib import Path

from tests.support.history_program import directories, logged, runs, write_program
from tests.support.local_cluster import LocalCluster
from tests.support.vaults import encrypt
from tests.support.waiting import LONG, until


def supervisor_of(cluster: LocalCluster, run: str) -> int:
    """Return the pid of the process that has the lock of the run's supervisor open."""
    lock = str(directories(cluster) / run / "supervisor.lock")

    def holders() -> set[int]:
        pids = set()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it ended, or is another user's
                for link in (process / "fd").iterdir():
                    with contextlib.suppress(OSError):  # it was closed
                        if str(link.readlink()) == lock:
                            pids.add(int(process.name))
        return pids

    # A child that it has just forked, such as git, has it as well until it becomes another program.
    (pid,) = until(lambda: pids if len(pids := holders()) == 1 else None, "the supervisor alone")
    assert isinstance(pid, int)
    return pid


def test_a_detached_run_is_followed_survives_its_supervisor_and_ends_by_itself(local_cluster: LocalCluster) -> None:
    write_program(local_cluster, 6)
    inventory = local_cluster.inventory.read_text().replace("checkpoints: none", "checkpoints: {every: 1s}")
    local_cluster.inventory.write_text(inventory)
    printed = local_cluster("run", "--detach", fresh=True)
    (one,) = runs(local_cluster)
    assert f"run {one['run']} goes on in the background\n  tfprov attach {one['run'][-6:]} " in printed
    assert (one["outcome"], one["supervised"]) == ("running", True)
    assert "has a supervisor already; `tfprov attach` follows it" in local_cluster("run", "--detach", code=1)
    gathered = local_cluster.directory / "checkpoints" / "history"
    until((gathered / "events.out.tfevents.1").exists, "it gathers while the training goes on")

    attached = local_cluster.start("attach", fresh=True)
    assert attached.stdout is not None
    logs = (line for line in attached.stdout if " | " in line)
    assert [line for _, line in zip(range(6), logs, strict=False)] == [f"worker/0 | step {n}\n" for n in range(6)]
    attached.send_signal(signal.SIGINT)
    assert attached.wait(LONG) == 130
    assert f"detached: {one['run']} goes on; `tfprov attach` follows it again" in attached.stdout.read()

    os.kill(supervisor_of(local_cluster, one["run"]), signal.SIGKILL)
    until(lambda: runs(local_cluster)[0]["outcome"] == "interrupted", "the supervisor is dead")
    assert len(local_cluster.pids()) == 1
    attached = local_cluster.start("attach", one["run"][-6:], fresh=True)
    assert attached.stdout is not None
    assert attached.stdout.readline() == f"nobody follows {one['run']} any more: a new supervisor goes on with it\n"
    until(lambda: runs(local_cluster)[0]["supervised"], "a new supervisor goes on", of=attached)
    (local_cluster.directory / "go").touch()
    rest = attached.stdout.read()
    assert attached.wait(LONG) == 1, "no checkpoint was saved, and `checkpoints: none` does not say that"
    assert "worker/0 has ended: no checkpoint lies in TFPROV_CHECKPOINT_DIR" in rest
    (one,) = runs(local_cluster)
    assert (one["outcome"], one["exit_code"], one["last_step"]) == ("failed", 1, 5)
    assert logged(directories(local_cluster) / one["run"]) == [f"step {n}" for n in range(6)]
    until(lambda: local_cluster.processes() == [], "the supervisor has taken the cluster down, and ended")
    assert "has ended: failed" in local_cluster("attach", one["run"], code=1)


def test_a_training_goes_on_when_its_supervisor_is_terminated_with_the_controller(local_cluster: LocalCluster) -> None:
    write_program(local_cluster, 6)
    local_cluster("run", "--detach", fresh=True)
    (one,) = runs(local_cluster)
    os.kill(supervisor_of(local_cluster, one["run"]), signal.SIGTERM)
    until(lambda: not runs(local_cluster)[0]["supervised"], "the supervisor has ended")
    assert runs(local_cluster)[0]["outcome"] == "up"
    assert len(local_cluster.pids()) == 1
    attached = local_cluster.start("attach", fresh=True)
    until(lambda: runs(local_cluster)[0]["supervised"], "a new supervisor goes on", of=attached)
    (local_cluster.directory / "go").touch()
    assert attached.wait(LONG) == 0
    assert runs(local_cluster)[0]["outcome"] == "succeeded"


def test_a_supervisor_goes_on_with_a_run_whose_terminal_is_closed(local_cluster: LocalCluster) -> None:
    write_program(local_cluster, 6)
    process = local_cluster.start("run", "--partial", "--discard", fresh=True)
    assert process.stdout is not None
    assert next(line for line in process.stdout if "step 5" in line)
    process.send_signal(signal.SIGHUP)
    assert process.wait(LONG) == 129
    assert process.stdout.read().endswith("taken down at its end; `tfprov attach` follows it\n")
    until(lambda: runs(local_cluster)[0]["supervised"], "the supervisor has taken over")
    order = json.loads((directories(local_cluster) / runs(local_cluster)[0]["run"] / "supervisor.json").read_text())
    assert (order["partial"], order["discard"], order["resume"]) == (True, True, False)
    assert len(local_cluster.pids()) == 1
    (local_cluster.directory / "go").touch()
    until(lambda: local_cluster.processes() == [], "it has taken the cluster down")
    (one,) = runs(local_cluster)
    assert (one["outcome"], one["exit_code"], one["last_step"]) == ("succeeded", 0, 5)
    assert logged(directories(local_cluster) / one["run"]) == [f"step {n}" for n in range(6)]
    assert local_cluster("attach").endswith("has ended: succeeded\n")


def test_a_supervisor_gets_vault_passwords_by_its_pipe_and_nowhere_else(local_cluster: LocalCluster) -> None:
    write_program(local_cluster, 2)
    (encrypted,) = encrypt("a-value-of-the-vault", password="open sesame 31")
    variable = "    s: !vault |" + "".join(f"\n        {line}" for line in encrypted.splitlines())
    text = local_cluster.inventory.read_text().replace("nobody-sees}", 'nobody-sees, S: "{{ s }}"}')
    local_cluster.inventory.write_text(text.replace("  children:", f"{variable}\n  children:"))
    script, asked = local_cluster.directory / "password.sh", local_cluster.directory / "asked"
    script.write_text(f"#!/bin/sh\necho asked >> {asked}\necho open sesame 31\n")
    script.chmod(0o755)
    local_cluster("run", "--detach", "--vault-password-file", str(script))
    (one,) = runs(local_cluster)
    pid = supervisor_of(local_cluster, one["run"])
    for name in ("cmdline", "environ"):
        assert b"sesame" not in Path(f"/proc/{pid}/{name}").read_bytes()
    (local_cluster.directory / "go").touch()
    until(lambda: local_cluster.processes() == [], "the run has ended")
    assert runs(local_cluster)[0]["outcome"] == "succeeded"
    assert asked.read_text() == "asked\n", "the supervisor did not ask again"
    for path in (local_cluster.directory / "state").rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        assert b"sesame" not in data, path
        assert b"a-value-of-the-vault" not in data, path
