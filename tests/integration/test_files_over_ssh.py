"""Write, read and list the files of a container on another machine through one SSH connection."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.docker_bench import DockerBench, docker_command
from tests.support.engine import Engine as PrivateEngine
from tests.support.images import Images
from tests.support.runtime_bench import container
from tests.support.ssh_targets import target
from tests.support.sshd import Sshd, program, sshd
from tfprov.errors import HostError
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.ssh.host import SSHHost

pytestmark = pytest.mark.skipif(program() is None, reason="needs openssh-server")
BIG = 24 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def ssh(server: Sshd) -> Iterator[SSHHost]:
    with SSHHost(target(server)) as connected:
        yield connected


@pytest.fixture
def remote_bench(engine: PrivateEngine, images: Images, ssh: SSHHost) -> Iterator[DockerBench]:
    """The docker runtime through SSH; worker/0 has a large file in its checkpoint directory."""
    bench = DockerBench(engine, images.tiny())
    bench.docker.engine, near = Engine.over(ssh, docker_command(engine)), bench.docker.engine
    try:
        bench.start(container())
        bench.save("worker/0", "big", bytes(BIG))
        yield bench
    finally:
        bench.docker.engine.close()
        bench.docker.engine = near
        bench.close()


def test_large_files_are_sent_and_read_back(remote_bench: DockerBench, tmp_path: Path) -> None:
    data = bytes(range(256)) * 50_000
    (tmp_path / "data").write_bytes(data)
    remote_bench.docker.stop("worker/0", 0)
    remote_bench.start(container(), restore={"model.data": tmp_path / "data"})
    with remote_bench.docker.open("worker/0", "model.data") as file:
        assert file.read() == data
    assert remote_bench.docker.tail("worker/0", "model.data", 1000) == data[-1000:]


def test_files_that_are_not_read_to_their_end_leave_sessions_for_others(remote_bench: DockerBench) -> None:
    for _ in range(15):  # sshd gives ten sessions to a connection
        with remote_bench.docker.open("worker/0", "big") as file:
            assert file.read(10) == bytes(10)
    assert remote_bench.docker.files("worker/0")["big"].size == BIG


def test_a_connection_that_is_lost_while_a_file_is_read_is_an_error_of_the_host(
    remote_bench: DockerBench, ssh: SSHHost
) -> None:
    with remote_bench.docker.open("worker/0", "big") as file:
        assert file.read(10) == bytes(10)
        ssh.close()
        with pytest.raises(HostError):
            list(iter(lambda: file.read(1 << 20), b""))
