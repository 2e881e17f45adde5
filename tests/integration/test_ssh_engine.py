"""A real engine through a real sshd, and through its unix socket: the same calls and the same errors."""

import hashlib
import http.server
import io
import os
import re
import shutil
import signal
import socketserver
import subprocess
import tarfile
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.support.docker_bench import docker_command
from tests.support.engine import Engine as PrivateEngine
from tests.support.ports import free_port
from tests.support.ssh_targets import error_of, target
from tests.support.sshd import Sshd, program, sshd
from tests.support.waiting import until
from tfprov.errors import HostError
from tfprov.hosts.base import Changes
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.image_contents import find_programs, try_import
from tfprov.hosts.docker.labels import CLUSTER, TASK
from tfprov.hosts.docker.runtime import DockerRuntime
from tfprov.hosts.process.proc import identity
from tfprov.hosts.ssh.connection import MAX_SESSIONS
from tfprov.hosts.ssh.errors import ConnectionLost
from tfprov.hosts.ssh.host import SSHHost
from tfprov.model.cluster import Task
from tfprov.model.state import Container, DockerOptions

pytestmark = pytest.mark.skipif(program() is None, reason="needs openssh-server")
IMAGE = f"tfprov-test-{uuid.uuid4().hex[:8]}:tiny"


def tiny() -> bytes:
    """A root file system of this machine's own shell and a few programs, with the libraries that they need."""
    files = {
        Path("/bin") / name: shutil.which(name) or "" for name in ("sh", "cat", "sleep", "echo", "head", "yes", "tr")
    }
    for observed in tuple(files.values()):
        listed = subprocess.run(["ldd", observed], capture_output=True, text=True, check=True).stdout
        files.update((Path(path), path) for path in re.findall(r"(/\S+)", listed))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", dereference=True) as tar:
        for name, source in files.items():
            tar.add(source, str(name))
        for folder in ("tmp", "data"):
            tar.addfile(_folder(folder))
        for path, leads_to in (("bin/shell", "/bin/shell3"), ("bin/shell3", "sh")):
            link = tarfile.TarInfo(path)
            link.type, link.linkname = tarfile.SYMTYPE, leads_to
            tar.addfile(link)
    return packed.getvalue()


def _folder(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, 0o777
    return info


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, private_engine: PrivateEngine) -> Iterator[Sshd]:
    home = tmp_path_factory.mktemp("sshd")
    with sshd(home, f"SetEnv HOME={home} DOCKER_HOST={private_engine.url}") as running:
        yield running


@pytest.fixture(scope="module")
def image(private_engine: PrivateEngine) -> Iterator[str]:
    local = Engine.local("h1", Path(private_engine.socket))
    with local.errors():
        repository, _, tag = IMAGE.partition(":")
        local.api.import_image_from_data(tiny(), repository=repository, tag=tag)
        yield IMAGE
        for container in local.api.containers(all=True, filters={"label": f"test={IMAGE}"}):
            local.api.remove_container(container["Id"], force=True)
        local.api.remove_image(IMAGE, force=True)
    local.close()


@pytest.fixture
def ssh(server: Sshd) -> Iterator[SSHHost]:
    with SSHHost(target(server)) as connected:
        yield connected


@pytest.fixture(params=["ssh", "local"])
def engine(request: pytest.FixtureRequest, ssh: SSHHost, private_engine: PrivateEngine) -> Iterator[Engine]:
    """The engine over SSH, by its socket; and on this machine."""
    observed = Engine.over(ssh) if request.param == "ssh" else Engine.local("h1", Path(private_engine.socket))
    yield observed
    observed.close()


@pytest.fixture
def remote_engine(ssh: SSHHost, private_engine: PrivateEngine) -> Iterator[Engine]:
    """The engine through `docker system dial-stdio`."""
    observed = Engine.over(ssh, docker_command(private_engine))
    yield observed
    observed.close()


class Started:
    """A container that the test has to itself."""

    def __init__(self, engine: Engine, image: str, command: list[str], **how: Any) -> None:
        self.engine = engine
        with engine.errors():
            api = engine.api
            config = api.create_host_config(init=True, port_bindings=how.pop("published", None))
            labels = {"test": IMAGE, **how.pop("labels", {})}
            made = api.create_container(image, command, host_config=config, labels=labels, **how)
            self.id: str = made["Id"]

    def __enter__(self) -> "Started":
        with self.engine.errors():
            self.engine.api.start(self.id)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(HostError), self.engine.errors():
            self.engine.api.remove_container(self.id, force=True, v=True)


def says(engine: Engine, call: Callable[[docker.APIClient], object]) -> str:
    def called() -> None:
        with engine.errors():
            call(engine.api)

    return error_of(called)


def test_the_engines_own_version_of_the_api_is_spoken(engine: Engine) -> None:
    with engine.errors():
        assert engine.api.api_version == engine.api.version(api_version=False)["ApiVersion"]
        assert engine.api.ping()


def test_logs_are_followed_line_by_line(engine: Engine, image: str) -> None:
    say = "echo line $i; echo other $i >&2"
    waits = f"trap 'seen=1' USR1; i=1; {say}; until [ $seen ]; do sleep 0.1; done; for i in 2 3; do {say}; done"
    with Started(engine, image, ["sh", "-c", waits]) as started, engine.errors():
        observed, printed = b"", False
        for piece in engine.api.logs(started.id, stream=True, follow=True):
            observed += piece
            if not printed and b"line 1" in observed:  # there is no more before that has been seen
                engine.api.kill(started.id, "USR1")
                printed = True
        assert observed.count(b"line") == observed.count(b"other") == 3
        assert engine.api.wait(started.id)["StatusCode"] == 0
        assert engine.api.logs(started.id, tail=1) in (b"line 3\n", b"other 3\n")


def test_files_are_written_and_read_back_whole(engine: Engine, image: str) -> None:
    data = os.urandom(1 << 20) * 24
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        info = tarfile.TarInfo("blob")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    with Started(engine, image, ["sleep", "3600"]) as started, engine.errors():
        packed.seek(0)
        assert engine.api.put_archive(started.id, "/data", packed)
        answer = engine.archive(started.id, "/data/blob")
        assert answer.status["size"] == len(data)
        got = io.BytesIO(b"".join(answer))
        answer.close()
    with tarfile.open(fileobj=got) as tar:
        member = tar.extractfile("blob")
        assert member
        assert hashlib.sha256(member.read()).digest() == hashlib.sha256(data).digest()


def test_a_container_is_attached_to_in_both_directions(engine: Engine, image: str) -> None:
    command = ["sh", "-c", "cat; echo bye"]
    started = Started(engine, image, command, stdin_open=True)
    with engine.errors():
        attached: Any = engine.api.attach_socket(started.id, params={"stdin": 1, "stdout": 1, "stream": 1})
        send = docker_exec.get_sender(attached)
        with started:
            send(b"hello\n")
            assert next(docker_exec.read_attached(attached)) == (1, b"hello\n")
        engine.close_attached(attached)


def test_commands_run_beside_the_program(engine: Engine, image: str) -> None:
    with Started(engine, image, ["sleep", "3600"]) as started, engine.errors():
        for number in range(5):  # the answer may come with the headers of the response or after them
            assert _printed(engine, started.id, f"echo beside {number}") == (0, {1: f"beside {number}\n"})
        assert _printed(engine, started.id, "echo out; echo err >&2; exit 3") == (3, {1: "out\n", 2: "err\n"})


def _printed(engine: Engine, container: str, script: str) -> tuple[int, dict[int, str]]:
    printed: dict[int, str] = defaultdict(str)

    def output(descriptor: int, data: bytes) -> None:
        printed[descriptor] += data.decode()

    return docker_exec.run(engine, container, ["sh", "-c", script], output), printed


def test_a_big_body_goes_up_in_a_stream(engine: Engine, image: str) -> None:
    with engine.errors():
        api: Any = engine.api
        saved = b"".join(api.get_image(image))
        pieces = (saved[at : at + 65536] for at in range(0, len(saved), 65536))
        assert any("Loaded image" in str(line) for line in api.load_image(pieces))


def test_many_threads_and_one_connection(remote_engine: Engine, ssh: SSHHost, server: Sshd, image: str) -> None:
    def work(_: int) -> int:
        with remote_engine.errors():
            return len(remote_engine.api.images(IMAGE))

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(work, range(96))) == {1}
    until(lambda: len(server.children()) == 1, "there is one connection, and those of before have ended")
    # What is kept for later is given up when others need it.
    streams = [ssh.stream(["cat"]) for _ in range(8)]
    for stream in streams:
        stream.close()
    assert work(0) == 1


def test_logs_can_be_followed_while_other_calls_go_on(remote_engine: Engine, ssh: SSHHost, image: str) -> None:
    with (
        Started(remote_engine, image, ["sh", "-c", "while :; do echo on; sleep 0.05; done"]) as started,
        remote_engine.errors(),
    ):
        followed = [remote_engine.api.logs(started.id, stream=True, follow=True) for _ in range(5)]
        assert all(next(iter(each)) == b"on\n" for each in followed)
        assert remote_engine.api.inspect_container(started.id)["State"]["Running"]
        assert ssh.run(["true"]).code == 0
        for each in followed:
            each.close()
    with ThreadPoolExecutor(8) as pool:
        assert {done.code for done in pool.map(lambda _: ssh.run(["true"]), range(8))} == {0}


def test_more_logs_can_be_followed_than_there_are_channels(remote_engine: Engine, ssh: SSHHost, image: str) -> None:
    runtime = DockerRuntime(remote_engine, "many", lambda *_: False, lambda _: (0, ""))
    tasks = [f"worker/{number}" for number in range(MAX_SESSIONS + 2)]
    counting = ["sh", "-c", "for n in 1 2 3 4 5 6; do echo $n; sleep 1; done; echo end"]
    with ExitStack() as started, ThreadPoolExecutor(len(tasks)) as pool:
        for task in tasks:
            started.enter_context(Started(remote_engine, image, counting, labels={CLUSTER: "many", TASK: task}))
        followed = [pool.submit(list, runtime.logs(task, follow=True)) for task in tasks]
        assert {seen.task for seen in runtime.observe().containers} == set(tasks)
        assert ssh.run(["true"]).code == 0
        assert [log.result() for log in followed] == [[*"123456", "end"]] * len(tasks)


def test_changes_are_reported_until_the_connection_is_lost(
    engine: Engine, image: str, server: Sshd, request: pytest.FixtureRequest
) -> None:
    """Over SSH and through a unix socket."""
    labels = {CLUSTER: f"events-{uuid.uuid4().hex[:8]}", TASK: "worker/0"}
    followed = f"{CLUSTER}={labels[CLUSTER]}"
    changes = engine.changes(followed, TASK)
    with Started(engine, image, ["sleep", "600"], labels={CLUSTER: "another", TASK: "worker/0"}) as others:
        until(lambda: _is_running(engine, others.id), "the other container runs")
        assert not changes.happened(), "of another cluster"
    with Started(engine, image, ["sh", "-c", "sleep 600"], labels=labels) as ours:
        until(changes.happened, "the start is reported")
        until(lambda: not changes.happened(), "all of it was read")
        # The rest of the start may still come: a program that counted as a change would do so each time.
        until(lambda: not _program_is_a_change(engine, ours.id, changes), "a program beside the task is no change")
        with engine.errors():
            engine.api.kill(ours.id)
        until(changes.happened, "the end is reported")
    assert changes.is_open
    if request.node.callspec.params["engine"] == "ssh":
        server.cut()
        until(lambda: changes.happened() and not changes.is_open, "the loss is noticed")
        again = engine.changes(followed, TASK)
        assert not again.happened()
        again.close()
    changes.close()


def _program_is_a_change(engine: Engine, container: str, changes: Changes) -> bool:
    """Whether there was a change while two programs ran: that of the first is known when the second has ended."""
    with engine.errors():
        for _ in range(2):
            docker_exec.run(engine, container, ["echo", "read"], lambda *_: None)
    return changes.happened()


def _is_running(engine: Engine, container: str) -> bool:
    with engine.errors():
        return bool(engine.api.inspect_container(container)["State"]["Running"])


def test_a_channel_whose_program_has_ended_is_not_reused(remote_engine: Engine, ssh: SSHHost, server: Sshd) -> None:
    for _ in range(2):
        with remote_engine.errors():
            assert remote_engine.api.ping()
        ended = server.programs(b"dial-stdio")
        assert ended
        for pid in ended:
            with suppress(ProcessLookupError):  # it ends by itself with the one before
                os.kill(pid, signal.SIGKILL)
        for pid in ended:
            until(partial(_has_ended, pid), "it has ended")
        until(lambda: not ssh.open().open_channels, "the end of its channels is known")


def _has_ended(pid: int) -> bool:
    return identity(pid) is None


def test_a_connection_that_goes_in_the_middle_of_an_archive(
    tmp_path: Path, image: str, private_engine: PrivateEngine
) -> None:
    with sshd(tmp_path) as own, SSHHost(target(own)) as host:
        remote_engine = Engine.over(host, docker_command(private_engine))
        with Started(
            remote_engine, image, ["sh", "-c", "head -c 50000000 /dev/zero > /data/zeros; sleep 600"]
        ) as started:
            until(lambda: _size(remote_engine, started.id) == 50_000_000, "the file is there")

            def cut() -> None:
                with remote_engine.errors(), closing(remote_engine.archive(started.id, "/data/zeros")) as answer:
                    for number, _piece in enumerate(answer):
                        if number == 20:
                            own.cut()

            error_of(cut, ConnectionLost)
            with remote_engine.errors():
                assert remote_engine.api.inspect_container(started.id)["State"]["Running"]
        remote_engine.close()


def _size(engine: Engine, container: str) -> int:
    with suppress(HostError), engine.errors(), closing(engine.archive(container, "/data/zeros")) as answer:
        return int(answer.status["size"])
    return 0


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_missing_object_is_named(engine: Engine) -> None:
    assert says(engine, lambda api: api.create_container("tfprov-none:1")) == (
        "h1: the image tfprov-none:1 is not there; deliver it: `tfprov image deliver`"
    )
    assert says(engine, lambda api: api.inspect_container("tfprov-none")) == "h1: No such container: tfprov-none"


def test_a_name_that_is_taken(engine: Engine, image: str) -> None:
    name = f"tfprov-test-{uuid.uuid4().hex[:8]}"
    with Started(engine, image, ["sleep", "3600"], name=name) as started:
        message = says(engine, lambda api: api.create_container(image, ["true"], name=name))
        assert message == (
            f"h1: a container called {name} is there already ({started.id[:12]}); remove or rename it: `docker rm {name}`"
        )


def test_a_port_that_is_taken(engine: Engine, image: str) -> None:
    port = free_port()
    how: dict[str, Any] = {"ports": [2222], "published": {2222: ("127.0.0.1", port)}}
    with Started(engine, image, ["sleep", "3600"], **how):
        second = Started(engine, image, ["sleep", "3600"], **how)
        message = error_of(second.__enter__)
        second.__exit__()
    assert message == f"h1: port {port} is taken; stop what listens there, or choose another `port`"


def test_a_program_that_the_image_does_not_have(engine: Engine, image: str) -> None:
    started = Started(engine, image, ["sleep", "3600"])
    with engine.errors():
        made = engine.api.create_container(image, ["no-such-program"], labels={"test": IMAGE})
    message = says(engine, lambda api: api.start(made["Id"]))
    assert message == "h1: the image has no program no-such-program that can be run; correct `command:`"
    started.__exit__()


def test_an_image_is_looked_into_without_a_program_of_its_own(engine: Engine, image: str) -> None:
    """Nothing of it is started for files; an import is tried with whatever is called Python, and its words are kept."""
    task = Task("worker", 0, "worker", "h1", "127.0.0.1", 2222)
    asked = Container(task, {"command": ["sh"]}, ("sh",), {}, "/checkpoints", docker=DockerOptions(image))
    names = ["sh", "python", "/bin/cat", "/bin/nothing", "./tmp", "./bin/sh", "/nowhere/x"]
    labels = {"test": IMAGE, "look": IMAGE}
    assert find_programs(engine, asked, labels, ["shell"]).files == {"shell": "/bin/sh"}, "behind both links"
    looked = find_programs(engine, asked, labels, names)
    assert [name for name, is_there in looked.present.items() if is_there] == ["sh", "/bin/cat", "./bin/sh"]
    assert looked.entrypoint == ()
    assert (looked.files["sh"], looked.files["./bin/sh"], looked.files["python"]) == ("/bin/sh", "/bin/sh", "")
    elsewhere = replace(asked, env={"PATH": "/tmp", "SECRET": "x"})
    assert find_programs(engine, elsewhere, labels, ["sh"]).present == {"sh": False}
    observed = try_import(engine, asked, labels, "sh")
    assert "import" in observed.error or "syntax" in observed.error.lower(), observed
    assert "has no program python" in error_of(lambda: try_import(engine, asked, labels, "python"))
    with engine.errors():
        assert engine.api.containers(all=True, filters={"label": f"look={IMAGE}"}) == []


def test_the_engines_socket_needs_no_program_on_the_host(ssh: SSHHost, server: Sshd) -> None:
    engine = Engine.over(ssh)
    for _ in range(3):
        with engine.errors():
            assert engine.api.ping()
        engine.close_idle()
    version, info = engine.ask("/version", "/info")
    assert (version["Version"], info["ID"]) == (engine.api.version()["Version"], engine.api.info()["ID"])
    until(lambda: ssh.open().open_channels <= 2, "the question's session has ended")  # SDK and questions have one each
    assert server.programs(b"dial-stdio") == []
    engine.close()
    until(lambda: not ssh.open().open_channels, "its channels are closed")


@pytest.mark.parametrize("refusal", ["AllowStreamLocalForwarding no", "DisableForwarding yes", "PermitTTY no"])
def test_docker_carries_what_sshd_does_not_connect(refusal: str, private_engine: PrivateEngine, tmp_path: Path) -> None:
    """Also with an sshd that allows one session at a time."""
    variables = f"SetEnv HOME={tmp_path} DOCKER_HOST={private_engine.url}"
    with sshd(tmp_path, variables, refusal, "MaxSessions 1") as strict, SSHHost(target(strict)) as host:
        engine = Engine.over(host)
        assert engine.ask("/version")[0]["ApiVersion"]
        assert bool(strict.programs(b"dial-stdio")) is ("Forwarding" in refusal)
        engine.close()


def test_an_engine_that_does_not_run(ssh: SSHHost, tmp_path: Path) -> None:
    nowhere = tmp_path / "docker.sock"
    for engine in (Engine.over(ssh, ("docker", "-H", f"unix://{nowhere}")), Engine.local("h1", nowhere)):
        assert says(engine, lambda api: api.ping()) == (
            "h1: its Docker engine does not run; start it there: `systemctl start docker`"
        )
        engine.close()


def test_a_host_without_docker(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").symlink_to(shutil.which("sh") or "")
    with sshd(tmp_path, f"SetEnv PATH={tmp_path / 'bin'} DOCKER_CONTEXT=fake") as bare, SSHHost(target(bare)) as host:
        engine = Engine.over(host)
        expected = "h1: Docker is not installed; install it there (Debian: `apt-get install docker.io`)"
        assert says(engine, lambda api: api.ping()) == expected
        fake = tmp_path / "bin" / "docker"
        fake.write_text(
            "#!/bin/sh\necho 'permission denied while trying to connect to the Docker daemon socket at "
            "unix:///var/run/docker.sock: dial unix /var/run/docker.sock: connect: permission denied' >&2; exit 1\n"
        )
        fake.chmod(0o755)
        message = says(engine, lambda api: api.ping())
        assert message.startswith(f"h1: {host.user} may not use its Docker engine; add the user to the group `docker`")
        assert "ansible_become" in message
        (tmp_path / "bin" / "sudo").write_text("#!/bin/sh\necho 'sudo: a password is required' >&2; exit 1\n")
        (tmp_path / "bin" / "sudo").chmod(0o755)
        with SSHHost(target(bare, become=True)) as sudoer:
            message = says(Engine.over(sudoer), lambda api: api.ping())
        assert message.startswith("h1: sudo: a password is required; allow sudo without a password")


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Callable[[bytes], Path]]:
    """An engine that gives the same answer to everything."""
    servers: list[socketserver.UnixStreamServer] = []

    def start(answer: bytes) -> Path:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.wfile.write(answer)

            def address_string(self) -> str:
                return ""

            def log_message(self, *_: object) -> None:
                pass

        path = tmp_path / f"fake{len(servers)}.sock"
        servers.append(socketserver.UnixStreamServer(str(path), Handler))
        threading.Thread(target=servers[-1].serve_forever, args=(0.01,)).start()
        return path

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def _json(text: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (_json(b'{"ApiVersion": "1.39"}'), "h1: its Docker engine is too old (API 1.39, 1.40 is needed); update it to "),
        (_json(b'{"Version": "1"}'), "h1: its Docker engine is too old (API None, 1.40 is needed)"),
        (_json(b"<html>"), "h1: its Docker engine "),
        (b"", "h1: its Docker engine closed the connection, outcome unknown: "),
        (b"SSH-2.0-x\r\n", "h1: its Docker engine closed the connection, outcome unknown: "),
        (b"HTTP/1.1 500 No\r\nContent-Length: 24\r\n\r\n{\"message\": \"it is ill\"}", "h1: it is ill"),
    ],
)  # fmt: skip
def test_engines_that_answer_strangely(fake: Callable[[bytes], Path], answer: bytes, message: str) -> None:
    engine = Engine.local("h1", fake(answer))

    def ping() -> None:
        with engine.errors():
            engine.api.ping()

    with pytest.raises(HostError) as caught:
        ping()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    engine.close()
