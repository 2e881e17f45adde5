"""The long forms of the tests, and the whole suite again and again beside other work: what `make test` has no time for.

    python -m tests.matrix [--times 10] [--busy 4] [pytest's arguments]

First everything once: every strategy killed in Docker too, every example of hypothesis, whatever is marked `matrix`. Then
the suite of `make test`, so many times, beside so many processes that only burn a core each. It stops at the first red
run. At its end, which strategies have survived on hosts of their own is written to tests/matrix.json with the date, and
the table of docs/strategies.md is made from that.
"""

import argparse
import contextlib
import datetime
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from tests.strategies import CASES, PAGE, RECORD, replaced
from tests.support.paths import ROOT
from tfprov.atomic_write import replace

REPORT = ROOT / "build" / "matrix.xml"
PYTEST = (sys.executable, "-m", "pytest", "-p", "tests.forks", "--forks", "2")

REQUIRED = dict.fromkeys(
    ("TFPROV_TESTS_ENGINE", "TFPROV_TESTS_BROWSER", "TFPROV_TESTS_JAVA", "TFPROV_TESTS_SHELLS"), "required"
)
"""A test that is not run here has survived nothing."""


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Burn `count` cores meanwhile."""
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


def tests(*arguments: str, **variables: str) -> None:
    """Run pytest; end with its exit code where that is not 0."""
    done = subprocess.run([*PYTEST, *arguments], cwd=ROOT, env={**os.environ, **REQUIRED, **variables}, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def survived(report: str) -> list[str]:
    """Return the names of the cases that a JUnit report says have passed on hosts of their own."""
    passed = [case.get("name", "") for case in ElementTree.fromstring(report).iter("testcase") if not len(case)]
    names = {match[1] for name in passed if (match := re.fullmatch(r"test_on_separate_hosts\[(.+)\]", name))}
    return [case.name for case in CASES if case.name in names]


def record(names: Sequence[str]) -> None:
    """Write which cases survived today, and the table of docs/strategies.md."""
    before = json.loads(RECORD.read_text())
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    replace(RECORD, (json.dumps(before | dict.fromkeys(names, today), indent=2, sort_keys=True) + "\n").encode())
    replace(PAGE, replaced(PAGE.read_text()).encode())


def main(argv: Sequence[str] | None = None) -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=10, help="of the suite beside other work")
    parser.add_argument("--busy", type=int, default=4, help="processes beside it")
    options, rest = parser.parse_known_args(argv)
    tests(f"--junitxml={REPORT}", *rest, TFPROV_TESTS_MATRIX="1")
    for number in range(1, options.times + 1):
        print(f"run {number} of {options.times}, beside {options.busy} busy processes", flush=True)
        with busy(options.busy):
            tests("-m", "not matrix")
    record(survived(REPORT.read_text()))


if __name__ == "__main__":
    main()
