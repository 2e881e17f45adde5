"""For all tests."""

import gc
import os
import signal
import sys
import uuid
from collections.abc import Generator, Sequence

import pytest

pytest.register_assert_rewrite("tests.support")  # asserts there say as much as those of tests

# Bytecode is kept, whatever is set here: every process that a test starts would compile tfprov again, and every run of
# the tests the tests themselves.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from tests.forks import RUN_ID, SECONDS  # noqa: E402
from tests.support.budget import Budget  # noqa: E402
from tests.support.scratch import use_scratch_directory  # noqa: E402

VARIABLES = {"page": "TFPROV_TESTS_BROWSER", "spark": "TFPROV_TESTS_JAVA", "shells": "TFPROV_TESTS_SHELLS"}
"""The fixtures of what else a machine may lack, and the variable that makes a lack of it an error."""
_OBJECTS = 100_000
"""New objects between two collections of garbage."""


def pytest_configure(config: pytest.Config) -> None:
    """Measure what the tests cost; and give signals their meaning back: a shell takes it from Ctrl-C, nohup from SIGHUP."""
    use_scratch_directory()
    config.pluginmanager.register(Budget(config), "budget")
    config.stash[RUN_ID] = uuid.uuid4().hex
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    gc.disable()  # while thousands of tests are collected, of which none is garbage


def pytest_collection_finish() -> None:
    """What was imported and collected stays: the garbage collector need not look through it again and again.

    Nor need it look after every 700 objects, as by default: that is a twelfth of the CPU time of unit tests.
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS)
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Where tests ran here, it counts again: what is frozen is torn down in another order, with warnings of sockets in use.

    Where forks ran them, this process ends two seconds earlier if what it has collected stays as it is.
    """
    if SECONDS not in config.stash:
        gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where nothing may be left out, a test that is skipped has failed, whatever it lacks."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and _is_required(getattr(item, "fixturenames", ())):
        _fail(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole file."""
    report = yield
    if report.skipped and _is_required():
        _fail(report)
    return report


def _is_required(fixtures: Sequence[str] = ()) -> bool:
    """Whether what a test with these fixtures may lack must be there: for most it is the engine."""
    variable = next((VARIABLES[name] for name in fixtures if name in VARIABLES), "TFPROV_TESTS_ENGINE")
    return os.environ.get(variable) == "required"


def _fail(report: pytest.TestReport | pytest.CollectReport) -> None:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    variables = " or ".join(["TFPROV_TESTS_ENGINE", *VARIABLES.values()])
    report.longrepr = f"{reason}\nNothing may be left out here: {variables} is `required`."
