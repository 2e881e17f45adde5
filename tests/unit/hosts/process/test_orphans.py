"""Processes that left the group of their task, for sessions of their own, are adopted, reaped and killed."""

import subprocess
import sys

ADOPTING = """
import os, subprocess, sys
from pathlib import Path
from tfprov.hosts.process.proc import adopt_orphans, identity, kill_children, reap_children, wait_until

def daemon(program):
    "Start a process whose parent ends at once, and return its pid."
    starter = "import os, subprocess as s, sys; p = s.Popen([sys.executable, '-c', sys.argv[1]], stdout=s.DEVNULL, "
    starter += "start_new_session=True); print(p.pid, flush=True); os._exit(0)"
    done = subprocess.run([sys.executable, "-c", starter, program], stdout=subprocess.PIPE, check=True)
    return int(done.stdout)

def ignores_sigterm(pid):
    "Whether the mask of ignored signals has signal 15; its lowest bit is signal 1 (proc(5))."
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in status if line.startswith("SigIgn:")), 16) >> 14 & 1

assert adopt_orphans()
assert reap_children()
"""


def adopting(program: str) -> None:
    """Run `program` in a process of its own, as it adopts and kills children."""
    subprocess.run([sys.executable, "-c", ADOPTING + program], check=True, timeout=60)


def test_an_adopted_process_that_ignores_sigterm_is_killed_and_reaped() -> None:
    adopting(
        "pid = daemon('import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)')\n"
        "wait_until(lambda: ignores_sigterm(pid), 30)\n"
        "assert ignores_sigterm(pid)\n"
        "assert identity(pid)\n"
        "kill_children(30)\n"
        "assert reap_children()\n"
        "assert not Path(f'/proc/{pid}').exists()\n"
    )


def test_an_adopted_process_that_ends_is_no_zombie_while_the_task_runs() -> None:
    adopting(
        "task = subprocess.Popen(['sleep', '60'])\n"
        "pid = daemon('pass')\n"
        "wait_until(lambda: not reap_children(keep=task.pid) and not Path(f'/proc/{pid}').exists(), 30)\n"
        "assert not Path(f'/proc/{pid}').exists()\n"
        "task.kill()\n"
        "wait_until(lambda: identity(task.pid) is None, 30)\n"
        "assert not reap_children(keep=task.pid)\n"
        "assert task.wait() == -9\n"
    )
