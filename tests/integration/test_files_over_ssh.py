"""Write, read and list the files of a container on another machine through one SSH connection."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cutting_proxy import cutting
from tests.support.docker_bench import DockerBench, docker_command
from tests.support.engine import Engine as PrivateEngine
from tests.support.images import Images
from tests.support.reporters import RecordingReporter
from tests.support.runtime_bench import container
from tests.support.ssh_targets import target
from tests.support.sshd import Sshd, program, sshd
from tfprov.engine.checkpoints.gather import gather
from tfprov.engine.context import Context
from tfprov.errors import HostError
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.ssh.host import SSHHost
from tfprov.model.cluster import Cluster, Task
from tfprov.model.inventory import Inventory

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


@pytest.mark.parametrize(("running", "cuts", "most"), [(True, 5, 1.1), (False, 1, 1.8)])
def test_a_gather_over_a_connection_that_is_cut_goes_on_where_it_stopped(
    engine: PrivateEngine, images: Images, server: Sshd, tmp_path: Path, *, running: bool, cuts: int, most: float
) -> None:
    """A container that runs, whose own programs read the file, and one that has ended, beside which another one does.

    Of an ended one, some MB are read for each listing.
    """
    content = random.Random(5).randbytes(BIG)
    bench = DockerBench(engine, images.python())
    near = bench.docker.engine
    with cutting(server.port, every=BIG // (cuts + 1), cuts=cuts) as proxy:
        server.known_hosts.write_text(f"{server.known_hosts.read_text()}[127.0.0.1]:{proxy.port} {server.public()}\n")
        try:
            bench.start(container())
            bench.save("worker/0", "model.ckpt-1.data-00000-of-00001", content)
            bench.save("worker/0", "model.ckpt-1.index", b"index")
            if not running:
                bench.docker.stop("worker/0", 0)
            with SSHHost(target(server, port=proxy.port)) as ssh:
                bench.docker.engine = Engine.over(ssh, docker_command(engine))
                gathered = gather(gather_context(bench, tmp_path), lambda _: {})
                bench.docker.engine.close()
        finally:
            bench.docker.engine = near
            bench.close()
    assert [saved.prefix for saved in gathered.new] == ["model.ckpt-1"]
    assert (gathered.directory / "model.ckpt-1.data-00000-of-00001").read_bytes() == content
    assert not (gathered.directory / ".part").exists()
    assert proxy.cuts == 0
    assert proxy.received <= most * BIG


def gather_context(bench: DockerBench, directory: Path) -> Context:
    return Context(
        inventory=Inventory("inventory.yml", {}, {}),
        cluster=Cluster("contract", (Task("worker", 0, "worker", "h", "127.0.0.1", 2222),)),
        wanted=(),
        runtimes={"h": bench.docker},
        artifacts={},
        home=directory / "home",
        target=directory / "gathered",
        report=RecordingReporter(),
    )
