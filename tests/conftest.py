"""For all tests."""

import signal

import pytest

from tests.support.budget import Budget


def pytest_configure(config: pytest.Config) -> None:
    """Measure what the tests cost; and give Ctrl-C its meaning back, which a shell takes from what it starts behind it."""
    config.pluginmanager.register(Budget(config), "budget")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
