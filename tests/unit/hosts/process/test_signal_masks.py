"""Which processes handle a signal, told from the masks in /proc/PID/status: by a shell pattern, inside containers."""

import fnmatch
from signal import Signals

import pytest

from tfprov.hosts.docker.exec import caught


@pytest.mark.parametrize("number", [Signals.SIGHUP, Signals.SIGUSR1, Signals.SIGTERM, Signals.SIGCHLD])
def test_the_pattern_matches_the_masks_that_have_the_signal_and_no_others(number: Signals) -> None:
    for mask in (*(1 << bit for bit in range(32)), 0, 0x180000202, (1 << 64) - 1):
        has = bool(mask >> (number - 1) & 1)
        assert fnmatch.fnmatchcase(f"{mask:016x}", caught(number)) is has, f"{mask:x}"
