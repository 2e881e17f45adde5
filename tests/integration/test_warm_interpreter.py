"""A fork of the warm interpreter behaves as a process of its own: other tests rely on that."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import python
from tests.support.waiting import LONG, started, until
from tests.support.warm import Process, interpreter

pytestmark = pytest.mark.tensorflow

ABOUT = """
import json, os, sys
print(json.dumps({
    "pid": os.getpid(), "session": os.getsid(0), "cwd": os.getcwd(), "argv": sys.argv, "name": __name__,
    "environ": open("/proc/self/environ").read().rstrip("\\0").split("\\0"), "descriptors": os.listdir("/proc/self/fd"),
    "cmdline": open("/proc/self/cmdline").read().rstrip("\\0").split("\\0"), "first": sys.path[0],
    "threads": len(os.listdir("/proc/self/task")), "warm": "tensorflow" in sys.modules, "executable": sys.executable,
}))
"""


def test_it_has_its_own_pid_session_environment_and_descriptors(tmp_path: Path) -> None:
    program = tmp_path / "about.py"
    program.write_text(ABOUT)
    env = {**os.environ, "MARK": "x" * 1000}
    with (tmp_path / "out").open("w+") as out:
        process = interpreter().popen(["about.py", "--flag", "value"], env=env, cwd=tmp_path, stdout=out, session=True)
        assert process.wait(LONG) == 0
        out.seek(0)
        about = json.loads(out.read())
    assert isinstance(process, Process)
    assert about["pid"] == about["session"] == process.pid
    assert (about["cwd"], about["argv"], about["name"]) == (str(tmp_path), ["about.py", "--flag", "value"], "__main__")
    assert sorted(about["environ"]) == sorted(f"{name}={value}" for name, value in env.items())
    assert about["cmdline"] == ["python", "about.py", "--flag", "value"]
    assert about["first"] == str(tmp_path)
    assert len(about["descriptors"]) == 4, "its three, and the one that lists them"
    assert about["threads"] == 1, "a fork has no other thread, so TensorFlow may have had none"
    assert about["warm"]
    assert about["executable"] == str(interpreter().path)


@pytest.mark.parametrize(
    ("program", "code", "last"),
    [
        ("pass", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit('why')", 1, "why"),
        ("import os; os._exit(7)", 7, ""),
        ("1 / 0", 1, "ZeroDivisionError: division by zero"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15, ""),
        ("raise KeyboardInterrupt", -2, "KeyboardInterrupt"),
        ("import atexit; atexit.register(print, 'at the end')", 0, ""),
        ("import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()", 0, ""),
    ],
)
def test_it_ends_as_an_interpreter_ends(program: str, code: int, last: str) -> None:
    forked = python("-c", program)
    fresh = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (forked.returncode, forked.stdout, forked.stderr) == (fresh.returncode, fresh.stdout, fresh.stderr)
    assert forked.returncode == code
    assert forked.stderr.strip().splitlines()[-1:] == ([last] if last else [])


def test_two_forks_draw_different_random_numbers() -> None:
    program = "import random, numpy; print(random.random(), numpy.random.rand())"
    assert not set(python("-c", program).stdout.split()) & set(python("-c", program).stdout.split())


def test_options_read_at_interpreter_start_get_a_fresh_interpreter() -> None:
    about = "import sys; print('tensorflow' in sys.modules, sys.flags.isolated, sys.flags.optimize)"
    assert python("-I", "-c", about).stdout == "False 1 0\n"
    assert python("-c", about, env={**os.environ, "PYTHONOPTIMIZE": "1"}).stdout == "False 0 1\n"
    assert python("-c", about).stdout == "True 0 0\n"


def test_the_executable_stands_for_the_program(tmp_path: Path) -> None:
    path = str(interpreter().executable())
    done = subprocess.run(
        [path, "-c", "import sys; print(sys.stdin.read()); sys.exit(5)"],
        input="read", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (5, "read\n")
    endless = "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(600)"
    process = subprocess.Popen([path, "-c", endless], cwd=tmp_path)
    pid = int(until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), "it runs"))
    start = started(pid)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    until(lambda: started(pid) != start, "what it stood for ends with it")


def test_a_program_that_ends_as_its_stand_in_does_leaves_the_server_at_work(tmp_path: Path) -> None:
    """Spark ends the worker of a stream's source in both ways; the server has both events at once if it is held up."""
    about = (
        "import os, pathlib, time; pathlib.Path('pids').write_text(f'{os.getpid()} {os.getppid()}'); time.sleep(600)"
    )
    stand_in = subprocess.Popen([str(interpreter().executable()), "-c", about], cwd=tmp_path, text=True)
    pids = until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text(), "it runs", of=stand_in)
    program, server = (int(pid) for pid in pids.split())
    os.kill(server, signal.SIGSTOP)
    try:
        os.kill(program, signal.SIGKILL)
        until(lambda: ") Z " in Path(f"/proc/{program}/stat").read_text(), "it has ended")
        stand_in.kill()
        assert stand_in.wait() == -signal.SIGKILL
    finally:
        os.kill(server, signal.SIGCONT)
    assert python("-c", "import os; print(os.getppid())").stdout == f"{server}\n"
