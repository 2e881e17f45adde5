"""What a run of the tests may cost, and what counts."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.budget import Budget, SpeedSamples, Usage, verdict

COMMITTED = {"cpu_seconds": 1000.0, "speed": 0.05}


@pytest.mark.parametrize(
    ("seconds", "speed", "fits"),
    [
        (1000, 0.05, True),
        (1099, 0.05, True),
        (1101, 0.05, False),
        (1101, 0.10, True),  # a machine of half the speed
        (2201, 0.10, False),
        (1101, 0.01, False),  # a quicker machine is no reason to cost more, and none to cost less
        (1099, 0.01, True),
    ],
)
def test_a_run_may_cost_a_tenth_more_at_the_machines_speed(seconds: float, speed: float, fits: bool) -> None:
    problem = verdict(seconds, speed, COMMITTED)
    assert (problem is None) is fits
    assert problem is None or (f"{seconds} CPU seconds" in problem and "\n" not in problem)


def test_what_was_there_before_does_not_count() -> None:
    begin = Usage(100.0, {(1, "a"): 5.0, (2, "b"): 10.0, (3, "c"): 1.0})
    # 2 is another process by now, and has cost something since; 3 are the tests themselves; 1 burned 20 seconds.
    end = Usage(150.0, {(1, "a"): 25.0, (2, "d"): 12.0, (3, "c"): 9.0})
    assert end.since(begin, ours=3) == 150 - 100 - 20


def test_work_of_a_process_that_outlives_its_parent_counts() -> None:
    begin = Usage.now()
    burn = "import os, time\nif os.fork(): os._exit(0)\nwhile time.process_time() < 2: pass"
    subprocess.run([sys.executable, "-c", f"{burn}\nprint('burned')"], check=True, stdout=subprocess.PIPE)
    # Twice as much was burned: the machine's seconds are counted by ticks, those of the others, taken off, more finely,
    # and over a time that is longer by as much as a busy machine holds this process up between the two.
    assert Usage.now().since(begin, os.getpid()) >= 1


def test_the_speed_is_measured_every_half_minute() -> None:
    now, speeds = [0.0], iter([0.05, 0.10, 0.15])
    samples = SpeedSamples(lambda: next(speeds), lambda: now[0])
    assert samples.mean() == 0
    for second in range(95):
        now[0] = float(second)
        samples.sample()
    assert samples.mean() == pytest.approx(0.10)


@pytest.mark.parametrize(
    ("options", "long_forms", "compared"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"file_or_dir": ["tests/unit"]}, False, False),
        ({"keyword": "lock"}, False, False),
        ({"maxfail": 1}, False, False),
    ],
)
def test_only_the_whole_suite_in_its_usual_length_has_a_budget(
    options: dict[str, object], long_forms: bool, compared: bool
) -> None:
    config: Any = SimpleNamespace(option=SimpleNamespace(**{"keyword": "", "file_or_dir": [], "maxfail": 0} | options))
    assert Budget(config, long_forms=long_forms).whole is compared
