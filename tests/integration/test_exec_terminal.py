"""`exec -it` and `ssh` in a real terminal: size, keys, exit code; standard input alone; the terminal afterwards."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.docker_bench import DockerBench, docker_command
from tests.support.engine import Engine as PrivateEngine
from tests.support.images import Images
from tests.support.paths import ROOT
from tests.support.runtime_bench import container
from tests.support.shells import interactive
from tests.support.ssh_targets import target
from tests.support.sshd import Sshd, program, sshd
from tests.support.waiting import LONG, until
from tfprov.errors import HostError
from tfprov.hosts.ssh.openssh import openssh_command
from tfprov.hosts.usage import GPU_QUERY, Usage

pytestmark = [pytest.mark.skipif(program() is None, reason="needs openssh-server"), pytest.mark.lane("engine")]
SCRIPT = """
trap 'echo caught' INT
has_size() { until [ "$(stty size 2>/dev/null)" = "$1" ]; do sleep 0.1; done; echo "size $1"; }
has_size "30 100"
until read -r line && [ -n "$line" ]; do :; done
echo "[$line]"
has_size "25 90"
exit 7
"""
"""An engine starts a program before it knows the size of its terminal."""
KINDS = ("process", "engine", "engine over SSH", "login")


@dataclass
class Places:
    """A running container, and an sshd of this machine."""

    bench: DockerBench
    server: Sshd
    engine: PrivateEngine

    def order(self, kind: str, argv: list[str], *, tty: bool) -> list[str]:
        """Return the command that runs `argv` at a place of this kind."""
        order: dict[str, Any] = {
            "kind": kind, "argv": argv, "tty": tty, "socket": str(self.engine.socket), "container": self.bench.see().id,
            "port": self.server.port, "key": str(self.server.user_key), "known_hosts": str(self.server.known_hosts),
            "docker": docker_command(self.engine),
        }  # fmt: skip
        return [sys.executable, "-m", "tests.support.attached", json.dumps(order)]


@pytest.fixture(scope="module")
def places(private_engine: PrivateEngine, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    bench = DockerBench(private_engine, images.tiny())
    try:
        bench.start(container(argv=["sleep", "3600"]))
        until(lambda: bench.see().started_at)
        with sshd(tmp_path_factory.mktemp("sshd")) as server:
            yield Places(bench, server, private_engine)
    finally:
        bench.close()


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "HOME": str(tmp_path), "TERM": "xterm"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_terminal_reaches_the_program_and_is_restored(kind: str, places: Places, tmp_path: Path) -> None:
    command = places.order(kind, ["sh", "-c", SCRIPT], tty=True)
    with interactive(command, environment(tmp_path), ROOT) as window:
        window.shows("size 30 100")
        before = window.attributes
        window.type("\x03")
        window.shows("caught")
        window.resize(90, 25)
        window.type("text\r")
        window.shows("[text]")
        window.shows("size 25 90")
        assert window.process.wait(LONG) == 7
        assert window.current_attributes() == before


@pytest.mark.parametrize("kind", KINDS)
def test_standard_input_alone_is_passed_on_to_its_end(kind: str, places: Places, tmp_path: Path) -> None:
    data = bytes(range(256)) * 4000
    command = places.order(kind, ["sh", "-c", "cat; echo end >&2; exit 3"], tty=False)
    (tmp_path / "input").write_bytes(data)
    piped = subprocess.run(command, input=data, capture_output=True, cwd=ROOT, check=False, timeout=LONG)
    assert (piped.returncode, piped.stderr) == (3, b"end\n")
    assert piped.stdout == data
    with (tmp_path / "input").open("rb") as file:
        read = subprocess.run(command, stdin=file, capture_output=True, cwd=ROOT, check=False, timeout=LONG)
    assert (read.returncode, read.stdout) == (3, data)
    unread = places.order(kind, ["true"], tty=False)
    assert subprocess.run(unread, input=data, capture_output=True, cwd=ROOT, check=False, timeout=LONG).returncode == 0


def test_a_terminal_is_restored_when_tfprov_is_ended(places: Places, tmp_path: Path) -> None:
    command = places.order("engine", ["sh", "-c", "echo ready; sleep 100"], tty=True)
    ending = "import signal, sys; signal.signal(15, lambda *_: sys.exit(9)); from tests.support.attached import main; "
    command[1:3] = ["-c", ending + "import json; sys.exit(main(json.loads(sys.argv[1])))"]
    with interactive(command, environment(tmp_path), ROOT) as window:
        window.shows("ready")
        assert window.current_attributes() != window.attributes, "raw meanwhile"
        window.process.terminate()
        assert window.process.wait(LONG) == 9
        assert window.current_attributes() == window.attributes


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs openssh-client")
def test_openssh_gets_the_options_of_the_inventory(places: Places, tmp_path: Path) -> None:
    command = openssh_command(
        target(places.server, connect_timeout=20.0, identities_only=True), ["echo", "a b", "$HOME"], tty=False
    )
    done = subprocess.run(command, capture_output=True, text=True, env=environment(tmp_path), check=False)
    assert (done.returncode, done.stdout) == (0, "a b $HOME\n"), done.stderr
    strange = target(places.server, known_hosts=(tmp_path / "none",))
    refused = subprocess.run(
        openssh_command(strange, ["true"], tty=False),
        capture_output=True,
        text=True,
        env=environment(tmp_path),
        check=False,
    )
    assert refused.returncode == 255
    assert "Host key verification failed" in refused.stderr


def test_the_engine_says_what_a_container_uses(places: Places) -> None:
    places.bench.answered[GPU_QUERY] = (127, "")
    first = places.bench.docker.usage()["worker/0"]
    assert (first.cpu, first.gpu_memory) == (None, None)
    busy = ["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"]

    def used() -> Usage | None:
        assert places.bench.docker.execute("worker/0", busy) == 0
        usage = places.bench.docker.usage()["worker/0"]
        return usage if (usage.cpu or 0.0) > 0.05 else None

    # On a busy machine, most of the time between two looks may be that of others.
    second = until(used, "a share of a core is counted")
    assert second.cpu < 64
    assert 0 < (second.memory or 0) < 1 << 30


def test_files_are_copied_into_a_container_whole(places: Places, tmp_path: Path) -> None:
    runtime = places.bench.docker
    source = tmp_path / "data"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "deep" / "run.sh").chmod(0o755)
    (source / "link").symlink_to("/etc/passwd")
    assert runtime.put("worker/0", "/tmp/copied", source) == "/tmp/copied"
    assert runtime.execute("worker/0", ["sh", "-c", "[ -x /tmp/copied/deep/run.sh ] && [ ! -e /tmp/copied/link ]"]) == 0
    assert runtime.execute("worker/0", ["sh", "-c", "ls -A /tmp | grep -q part"]) == 1
    assert runtime.put("worker/0", "/tmp", source / "deep" / "run.sh") == "/tmp/run.sh"
    (source / "deep" / "run.sh").write_text("new")
    assert runtime.put("worker/0", "/tmp/run.sh", source / "deep" / "run.sh") == "/tmp/run.sh"
    assert runtime.execute("worker/0", ["sh", "-c", '[ "$(cat /tmp/run.sh)" = new ]']) == 0
    for path, wrong in (("/tmp/none/x", "no such directory in the container: /tmp/none"), ("/tmp/copied", "")):
        if wrong:
            with pytest.raises(HostError, match=wrong):
                runtime.put("worker/0", path, source)
        else:
            assert runtime.put("worker/0", path, source) == "/tmp/copied/data", "a directory gets it with its own name"
    with pytest.raises(HostError, match="there is a directory at /tmp/copied/data already; remove it first"):
        runtime.put("worker/0", "/tmp/copied", source)
    with pytest.raises(HostError, match="the container's user may not write to /proc"):
        runtime.put("worker/0", "/proc/x", source / "deep" / "run.sh")
    with pytest.raises(HostError, match="was not copied"):  # an engine does not see what is mounted in memory
        runtime.put("worker/0", "/dev/shm/x", source / "deep" / "run.sh")
