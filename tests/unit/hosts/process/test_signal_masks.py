"""The shell pattern that finds processes handling a signal by their masks in /proc/PID/status."""

import fnmatch
from signal import Signals

import pytest

from tfprov.hosts.docker.exec import signal_mask_pattern


@pytest.mark.parametrize("number", [Signals.SIGHUP, Signals.SIGUSR1, Signals.SIGTERM, Signals.SIGCHLD])
def test_the_pattern_matches_exactly_the_masks_that_contain_the_signal(number: Signals) -> None:
    for mask in (*(1 << bit for bit in range(32)), 0, 0x180000202, (1 << 64) - 1):
        has = bool(mask >> (number - 1) & 1)
        assert fnmatch.fnmatchcase(f"{mask:016x}", signal_mask_pattern(number)) is has, f"{mask:x}"
