"""The rate of a link, on links of known rates, and what is sent to measure it."""

import random
import subprocess
from pathlib import Path

import pytest

from tests.support.examples import quick
from tfprov.errors import HostError
from tfprov.hosts.link_rate import LIMIT, SECONDS, rate_of, send_samples
from tfprov.images.compression.decision import FASTEST

WINDOW = 2 * 1024 * 1024
REPORTED = 96 * 1024
"""sshd reports what was read in multiples of this."""


class Link:
    """A program at the end of a link of `rate` bytes a second, with a clock of its own."""

    def __init__(self, rate: float, open_for: float = 10.0, start: float = 0.0) -> None:
        self.rate, self.open_for, self.start = rate, open_for, start
        self.time = self.arrived = 0.0
        self.sent = bytearray()

    @property
    def window(self) -> int:
        return WINDOW - len(self.sent) + int(self.arrived) // REPORTED * REPORTED

    @property
    def is_open(self) -> bool:
        return self.time < self.open_for

    def sendall(self, data: bytes) -> None:
        assert len(data) <= self.window
        self.sent += data

    def settimeout(self, seconds: float | None) -> None:
        pass

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        if self.time > self.start:
            self.arrived = min(len(self.sent), self.arrived + self.rate * seconds)


@pytest.mark.parametrize("rate", [2e6, 8e6, 12.5e6, 40e6, 100e6])
def test_the_rate_is_that_of_the_link(rate: float) -> None:
    link = Link(rate)
    assert rate_of(send_samples(link, link.now, link.sleep)) == pytest.approx(rate, rel=0.15)
    assert link.time < SECONDS + 0.01
    assert len(link.sent) <= LIMIT


def test_the_start_of_the_program_does_not_count() -> None:
    link = Link(12.5e6, start=0.1)
    assert rate_of(send_samples(link, link.now, link.sleep)) == pytest.approx(12.5e6, rel=0.15)


class BusyHost(Link):
    """A link to a host whose sshd waits for a processor from time to time, and then reads what has come: 150 MB/s."""

    def __init__(self, rate: float, chance: random.Random) -> None:
        super().__init__(rate, start=chance.choice([0, 0.05]))
        begins = [chance.uniform(0, 0.28) for _ in range(chance.choice([1, 1, 2, 3]))]
        self._waits = [(begin, begin + chance.uniform(0.02, 0.25)) for begin in begins]
        self._read = 0.0

    @property
    def window(self) -> int:
        return WINDOW - len(self.sent) + int(self._read) // REPORTED * REPORTED

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if not any(begin <= self.time < end for begin, end in self._waits):
            self._read = min(self.arrived, self._read + 150e6 * seconds)


def test_a_slow_link_to_a_busy_host_does_not_seem_fast() -> None:
    """What has piled up there comes at once: as the later half alone it was up to 50 times the rate, in one of ten."""
    for rate in (7.5e6, 12e6):
        links = [BusyHost(rate, random.Random(seed)) for seed in range(quick(75))]
        rates = [rate_of(send_samples(link, link.now, link.sleep)) for link in links]
        assert [one for one in rates if one > FASTEST] == []
        assert sum(0.8 * rate < one < 1.2 * rate for one in rates) > len(rates) / 2, "and most are right"


@pytest.mark.parametrize(("rate", "most"), [(0.0, 0.0), (1e5, 0.0), (5e5, 1e6)])
def test_a_very_slow_link_delays_the_delivery_by_little(rate: float, most: float) -> None:
    link = Link(rate)
    assert rate_of(send_samples(link, link.now, link.sleep)) <= most
    assert len(link.sent) <= 600 * 1024


def test_a_program_that_ends_is_an_error() -> None:
    link = Link(1e7, open_for=0.1)
    with pytest.raises(HostError):
        send_samples(link, link.now, link.sleep)


def test_a_fast_clock_does_not_divide_by_zero() -> None:
    assert rate_of([(1.0, 0), (1.0, 5_000_000)]) > 0
    assert rate_of([(1.0, 0)]) == 0


def test_a_shell_in_place_of_the_program_does_nothing_with_the_bytes(tmp_path: Path) -> None:
    """An account's start-up file may run one; what it reads must be no commands."""
    link = Link(1e9)
    send_samples(link, link.now, link.sleep)
    assert len(link.sent) > LIMIT // 2
    for shell in ("sh", "bash"):  # which read a byte at a time
        sent = link.sent[: LIMIT // 16]
        done = subprocess.run([shell, "-s"], input=sent, capture_output=True, check=True, cwd=tmp_path)
        assert done.stdout + done.stderr == b""
    assert not list(tmp_path.iterdir())
