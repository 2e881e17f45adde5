"""Fixtures with a Docker engine, a browser or Spark, and the diagnostics they print for a failed test."""

import contextlib
import os
import re
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.forks import RUN_ID
from tests.support import engine as engines
from tests.support import testhosts
from tests.support.budget import IMAGES_BUILT
from tests.support.command_line import python
from tests.support.delivery import machine
from tests.support.engine import Engine
from tests.support.images import Images
from tests.support.local_cluster import LocalCluster, open_local_cluster
from tests.support.paths import PROGRAMS, ROOT, cache_home
from tests.support.programs import ProgramHosts
from tests.support.testhost import Host
from tests.support.testhosts import Lab
from tests.support.warm import interpreter
from tfprov.errors import Locked
from tfprov.hosts.machine import SSHMachine
from tfprov.images.oci_layout import Layout

if TYPE_CHECKING:
    from playwright.sync_api import Page
    from pyspark.sql import SparkSession

    from tests.support.hdfs import Hdfs
    from tests.support.seaweedfs import S3Server

FAILURES = ROOT / "build" / "failures"
"""Where logs and `inspect` output of failed tests are kept: a directory each, named as the test."""

TRAININGS = {
    "test_strategies": "strategies",
    **dict.fromkeys(("test_runtime", "test_training", "test_training_graph", "test_training_tf2"), "trainings"),
}
"""The groups of files with TensorFlow on this machine; others are in the group `tensorflow`."""

KEPT_IMAGES = 4
"""Names of images that stay in the cache of trainings: the base, and the last that were put on it."""

FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """There is one lab: all tests that use it run one after the other, in one of pytest's processes.

    So do trainings with TensorFlow on hosts, which have a lab of their own, tests that use the engine alone, those with
    Spark, those with servers of file systems, and trainings on this machine in three groups: more TensorFlows at once on
    two cores take minutes to be imported.
    """
    for item in items:
        names = getattr(item, "fixturenames", ())
        trains = item.get_closest_marker("tensorflow")
        if "_lab" in names:
            item.add_marker(pytest.mark.lane("lab"))
        elif "_training_lab" in names:
            item.add_marker(pytest.mark.lane("training-lab"))
        elif "private_engine" in names:
            item.add_marker(pytest.mark.lane("engine"))
        elif "spark" in names:
            item.add_marker(pytest.mark.lane("spark"))
        elif {"s3", "hdfs"} & set(names):
            item.add_marker(pytest.mark.lane("file-systems"))
        elif trains and item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.lane(TRAININGS.get(item.path.stem, "tensorflow")))


def pytest_collection_finish() -> None:
    """Before any process of the tests is forked, so that all of them share the warm interpreters."""
    interpreter()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember for the fixtures that the test failed; they end after it."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


def _not_run(reason: str, variable: str) -> None:
    """Report tests as not run; as failed on machines that must run everything, such as those of continuous integration."""
    (pytest.fail if os.environ.get(variable) == "required" else pytest.skip)(reason)


@pytest.fixture
def page() -> Iterator["Page"]:
    """An empty page of a real browser; the test is reported as not run on a machine that has none."""
    from tests.support import browser  # noqa: PLC0415  for one test only

    if reason := browser.unavailable():
        _not_run(reason, "TFPROV_TESTS_BROWSER")
    with browser.opened() as page:
        yield page


@pytest.fixture(scope="session")
def shells() -> None:
    """Need bash, zsh, fish and man; their tests are reported as not run on a machine without one of them."""
    from tests.support import shells  # noqa: PLC0415  for its tests only

    if reason := next(filter(None, map(shells.unavailable, (*shells.STARTS, "man"))), None):
        _not_run(reason, "TFPROV_TESTS_SHELLS")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Spark with two executors, which all tests share; they are reported as not run on a machine without Java."""
    from tests.support import spark  # noqa: PLC0415  for its tests only

    if reason := spark.unavailable():
        _not_run(reason, "TFPROV_TESTS_JAVA")
    with spark.session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator["S3Server"]:
    """An S3 server for all tests of this process."""
    from tests.support import seaweedfs  # noqa: PLC0415  for its tests only

    with seaweedfs.running(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.fixture(scope="session")
def s3_for_containers(private_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator["S3Server"]:
    """The same at an address that containers reach, also those on test hosts."""
    from tests.support import seaweedfs  # noqa: PLC0415  for its tests only

    address = str(private_engine.network.outside)
    with seaweedfs.running(tmp_path_factory.mktemp("seaweedfs"), address) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Hdfs"]:
    """A NameNode and a DataNode for all tests of this process; reported as not run on a machine without Java."""
    from tests.support import hdfs  # noqa: PLC0415  for its tests only

    if reason := hdfs.unavailable():
        _not_run(reason, "TFPROV_TESTS_JAVA")
    with hdfs.running(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


@pytest.fixture
def local_cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """A cluster on this machine, of which nothing is left running."""
    for cluster in open_local_cluster(tmp_path):
        yield cluster
        if request.node.stash.get(FAILED, False):
            print(cluster.report())


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[ProgramHosts]:
    """Starts training programs, and ends every one of them."""
    hosts = ProgramHosts(tmp_path)
    try:
        yield hosts
    finally:
        hosts.end()


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data of the example programs, as every host has it."""
    directory = tmp_path_factory.mktemp("digits")
    done = python(str(PROGRAMS / "digits_data.py"), str(directory))
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture(scope="session")
def private_engine(pytestconfig: pytest.Config) -> Iterator[Engine]:
    """A Docker engine of the tests' own, which all of pytest's processes share.

    The test is reported as not run on a machine that cannot have one.
    """
    if reason := engines.unavailable():
        _not_run(reason, "TFPROV_TESTS_ENGINE")
    yield from engines.running(cache_home(), pytestconfig.stash[RUN_ID])


@pytest.fixture(scope="session")
def engine(private_engine: Engine) -> Engine:
    """The same, under the name that a module may give to an engine of its own."""
    return private_engine


@pytest.fixture(scope="session")
def images(
    private_engine: Engine, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Images]:
    """The images of the tests, each made when it is first asked for."""
    images = Images(private_engine, tmp_path_factory.mktemp("archives"))
    yield images
    pytestconfig.stash[IMAGES_BUILT] = images.built


@pytest.fixture(scope="session")
def tiny_archive(images: Images) -> Path:
    """The small image, which has no Python, as `docker save` writes it."""
    return images.archive(images.tiny())


@pytest.fixture(scope="session")
def python_archive(images: Images) -> Path:
    """The image with Python, as `docker save` writes it."""
    return images.archive(images.python())


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The controller's cache, for all tests that are not about it: every image is put together once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def train_cache(images: Images) -> Iterator[Path]:
    """The controller's cache for trainings with the image of `images/train`, as a user has one: it outlives the session.

    Of the 1.1 GB nothing is exported from the engine again while the image is the same. What a session puts on top goes.
    """
    directory = cache_home() / "exports" / images.train().rpartition(":")[2]
    for other in directory.parent.glob("*"):
        if other != directory:
            shutil.rmtree(other)
    directory.mkdir(parents=True, exist_ok=True)
    yield directory
    shutil.rmtree(directory / "tfprov" / "code", ignore_errors=True)
    with contextlib.suppress(Locked):  # another session uses it, and will
        Layout(directory / "tfprov" / "images").prune(keep=KEPT_IMAGES)


@pytest.fixture(scope="session")
def _lab(private_engine: Engine, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from testhosts.running(Lab(private_engine, images, tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="session")
def _training_lab(private_engine: Engine, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home = tmp_path_factory.mktemp("home")
    yield from testhosts.running(Lab(private_engine, images, home, number=1, image=images.train()))


@pytest.fixture(scope="session")
def _containerd_lab(private_engine: Engine, images: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home, host = tmp_path_factory.mktemp("home"), images.containerd_host()
    yield from testhosts.running(Lab(private_engine, images, home, number=2, host_image=host, size=2))


@pytest.fixture
def lab(_lab: Lab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Four hosts, as new: node1 to node4. Images that a test has put on them stay for the next one."""
    yield from _restored(_lab, request)


@pytest.fixture
def training_lab(_training_lab: Lab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The same for trainings with TensorFlow, which take as long as all other tests on hosts together: node11 to node14.

    All but node14 have the image of `images/train`, without code: 1.1 GB that would be brought to each of them.
    """
    yield from _restored(_training_lab, request)


@pytest.fixture
def containerd_lab(_containerd_lab: Lab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Two hosts whose engines are newer and store images in containerd: node21 and node22."""
    yield from _restored(_containerd_lab, request)


@pytest.fixture
def node_machine(node: Host) -> Iterator[SSHMachine]:
    """A connection to the host that a module calls `node`."""
    made = machine(node)
    yield made
    made.close()


def _restored(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    lab.restore()
    yield lab
    if request.node.stash.get(FAILED, False):
        lab.save(FAILURES / re.sub(r"[^\w.-]+", "-", request.node.nodeid.rpartition("/")[2]))
