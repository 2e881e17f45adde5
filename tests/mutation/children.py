"""Processes that run tests on a copy of the tree, forked from one that has imported pytest and all that is not ours."""

import ast
import contextlib
import importlib
import json
import os
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.scratch import VARIABLE

OURS = ("tfprov", "tests")
_LARGE = {"ansible", "playwright", "sklearn", "tensorboard", "tensorflow"}
"""Not imported in advance: most tests do not need them, and some start threads."""

_MEMORY = 8 << 30
"""Bytes of address space for one child: a mutant that collects without an end dies of it."""

Work = Callable[[], Any]


def copy_tree(source: Path, target: Path) -> None:
    """Copy what git knows of a tree, and what it does not ignore; anything at all where there is no git."""
    listed = subprocess.run(
        ["git", "-C", str(source), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
    )
    if listed.returncode or not listed.stdout:
        shutil.copytree(source, target, symlinks=True)
        return
    for name in filter(None, listed.stdout.decode(errors="surrogateescape").split("\0")):
        if (source / name).exists() or (source / name).is_symlink():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name, follow_symlinks=False)


def import_others(root: Path) -> None:
    """Import what the code and the tests in `root` import and neither contains nor is Python's: once for all children."""
    names: set[str] = set()
    for path in (path for folder in OURS for path in (root / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    skipped = _LARGE | set(OURS) | sys.stdlib_module_names
    for name in sorted({"pytest", *names}):
        if name.partition(".")[0] not in skipped:
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(name)
    assert threading.active_count() == 1, "a process with threads cannot be forked"


@dataclass
class Child:
    """A process at work."""

    process: int
    pipe: int
    end: float
    scratch: Path
    done: Callable[[Any], None]
    received: bytearray = field(default_factory=bytearray)


@dataclass
class Pool:
    """As many children at a time as there are jobs; what one returns is handed on as soon as it has ended."""

    jobs: int
    scratch: Path
    children: dict[int, Child] = field(default_factory=dict)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def start(self, tree: Path, work: Work, limit: float, done: Callable[[Any], None]) -> None:
        """Run `work` in a child whose tree is `tree`, when there is room; `done` gets its result, or why there is none.

        `limit` is in seconds of CPU time; where others are at work or where it just waits, it has ten times as long.
        """
        while len(self.children) >= self.jobs:
            self.step()
        scratch = Path(tempfile.mkdtemp(dir=self.scratch))
        read, write = os.pipe()
        sys.stdout.flush()
        process = os.fork()
        if not process:
            os.close(read)
            _be_child(tree, scratch, write, work, limit)
        os.close(write)
        self.children[read] = Child(process, read, time.monotonic() + 10 * limit, scratch, done)
        self.selector.register(read, selectors.EVENT_READ)

    def step(self) -> None:
        """Wait until a child has something to say or its time is over. What follows it may start another one."""
        first = min(child.end for child in self.children.values())
        ready = self.selector.select(max(0.0, first - time.monotonic()))
        for child in [self.children[key.fd] for key, _ in ready]:
            if self.children.get(child.pipe) is child:
                piece = os.read(child.pipe, 1 << 20)
                child.received += piece
                if not piece or piece.endswith(b"\n"):
                    self.finish(child, None)
        for child in list(self.children.values()):
            if self.children.get(child.pipe) is child and child.end <= time.monotonic():
                self.finish(child, "timeout")

    def finish(self, child: Child, why: str | None) -> None:
        """End a child and all that it has started."""
        self.selector.unregister(child.pipe)
        del self.children[child.pipe]
        os.close(child.pipe)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.process, signal.SIGKILL)
        os.waitpid(child.process, 0)
        last = output_of(child.scratch)
        shutil.rmtree(child.scratch, ignore_errors=True)
        if why is None and child.received.endswith(b"\n"):
            child.done(json.loads(child.received))
        else:
            child.done(f"{why or 'crash'}\n{last}")

    def wait(self) -> None:
        """Wait for all children, and for those that these are followed by."""
        while self.children:
            self.step()

    def close(self) -> None:
        """End all children at once."""
        for child in list(self.children.values()):
            child.done = lambda _: None
            self.finish(child, "stopped")


def output_of(scratch: str | Path) -> str:
    """Return the end of what a child has written."""
    output = Path(scratch) / "output"
    return output.read_bytes()[-2000:].decode(errors="replace") if output.exists() else ""


def _be_child(tree: Path, scratch: Path, pipe: int, work: Work, limit: float) -> None:
    """Run `work` with the modules of `tree`; never returns."""
    code = 1
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 2))
        for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
            del sys.modules[name]
        here = Path.cwd()
        sys.path[:] = [str(tree), *(one for one in sys.path if one and Path(one).resolve() != here)]
        importlib.invalidate_caches()
        os.chdir(tree)
        home = scratch / "home"
        home.mkdir()
        os.environ |= {"PYTHONPATH": str(tree), "HOME": str(home), "PWD": str(tree)}
        os.environ |= dict.fromkeys(("TMPDIR", VARIABLE), str(scratch))
        os.environ.pop("XDG_CACHE_HOME", None)
        tempfile.tempdir = None
        with (scratch / "output").open("wb", buffering=0) as output, open(os.devnull, "rb") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 0)
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        result = work()
        sys.stdout.flush()
        data = json.dumps(result).encode() + b"\n"
        while data:
            data = data[os.write(pipe, data) :]
        code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)


@dataclass(eq=False)
class Choice:
    """A pytest plugin that runs the chosen tests in the chosen order, and notes what became of them."""

    chosen: list[str]
    known: set[str]
    """All tests of these files: one that is new because of a mutant stands in for those that are gone."""
    limits: dict[str, float] = field(default_factory=dict)
    """Seconds of CPU time for each test; one that takes longer ends the process."""
    failed: str = ""
    why: str = ""
    passed: int = 0

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        rank = {name: number for number, name in enumerate(self.chosen)}
        gone = {name.partition("[")[0] for name in rank.keys() - {item.nodeid for item in items}}
        for item in items:
            if item.nodeid not in self.known and item.nodeid.partition("[")[0] in gone:
                rank[item.nodeid] = len(rank)
        items[:] = sorted((item for item in items if item.nodeid in rank), key=lambda item: rank[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        signal.setitimer(signal.ITIMER_PROF, self.limits.get(nodeid, 60.0))

    def pytest_runtest_logfinish(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed, self.why = report.nodeid or "collection", str(report.longrepr)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.failed:
            self.failed, self.why = report.nodeid, str(report.longrepr)
        self.passed += report.when == "call" and report.passed


def pytest_arguments(files: list[str]) -> list[str]:
    """Return how pytest is called in a child, whose temporary directory is its own."""
    scratch = os.environ["TMPDIR"]
    early = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
    plain = ["-q", "-x", "--no-header", "--tb=short", "-p", "no:cacheprovider"]
    return [*plain, "-W", early, f"--basetemp={scratch}/t", *files]


def run_tests(chosen: list[str], known: set[str], limits: dict[str, float]) -> dict[str, Any]:
    """Run tests in the order in which they are listed, until one fails."""
    import pytest  # noqa: PLC0415  the import is in the process already

    choice = Choice(chosen, known, limits)
    files = list(dict.fromkeys(name.partition("::")[0] for name in chosen))
    code = int(pytest.main(pytest_arguments(files), plugins=[choice]))
    if code not in (0, 5) and not choice.failed:
        choice.failed, choice.why = "pytest", f"pytest ended with {code}\n{output_of(os.environ['TMPDIR'])}"
    return {"failed": choice.failed, "why": choice.why[-4000:], "passed": choice.passed}


def files_of(tree: Path) -> Iterator[str]:
    """Yield the test files of a tree."""
    for path in sorted((tree / "tests" / "unit").rglob("test_*.py")):
        yield path.relative_to(tree).as_posix()
