"""For all tests."""

import signal


def pytest_configure() -> None:
    """Give Ctrl-C its meaning back: a shell that starts the tests in the background takes it from all that they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
