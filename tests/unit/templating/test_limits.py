"""The limits of renderings in a process that does other things, too."""

import mmap
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from jinja2.exceptions import SecurityError

from tests.support.paths import ROOT
from tfprov.templating.limits import LimitExceeded, Limits, check_joined


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def burn_until(condition: Callable[[], bool]) -> None:
    """Use CPU time until the timer has changed something: the kernel looks at it as rarely as it likes."""
    end = time.process_time() + 30
    while not condition():
        assert time.process_time() < end, "the timer does not tick"


def timer_stopped() -> bool:
    return not signal.getitimer(signal.ITIMER_PROF)[0]


_MAPS = """
import mmap
from tfprov.templating.limits import Limits
limits = Limits(memory=64 << 20)
limits.within(int)
with mmap.mmap(-1, 1 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
    print(limits.within(lambda: len(bytearray(32 << 20))) >> 20)
    try:
        limits.within(lambda: bytearray(256 << 20))
    except MemoryError:
        print("too much")
"""


def test_a_library_may_map_more_than_the_limit_between_two_renderings() -> None:
    """Arrow maps 1 GiB at its first array. In a process of its own: where other threads run, there is no such limit."""
    assert subprocess.run([sys.executable, "-c", _MAPS], capture_output=True, check=True).stdout == b"32\ntoo much\n"


def test_limits_end_their_renderings_after_others_had_the_timer() -> None:
    first, second = Limits(seconds=0.1), Limits(seconds=0.1)
    for each in (first, second):
        each.within(int)
    burn_until(timer_stopped)
    for each in (first, second, first):
        with pytest.raises(LimitExceeded, match=r"takes more than 0\.1 seconds"):
            each.within(burn, 30.0)
    burn_until(timer_stopped)


_LATE = """
import atexit, os, signal, time
from functools import partial
late = partial(os.kill, os.getpid(), signal.SIGPROF)
atexit.register(late)  # called after those that are registered later
from tfprov.templating.limits import Limits
Limits(seconds=0.04).within(int)
while signal.getitimer(signal.ITIMER_PROF)[0]:
    assert time.process_time() < 60
late()
"""


def test_a_tick_that_comes_after_its_timer_has_stopped_does_not_end_the_process() -> None:
    """It may be on its way to another thread."""
    done = subprocess.run([sys.executable, "-c", _LATE], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_timer_that_has_stopped_leaves_the_signal_to_whoever_had_it() -> None:
    def handler(_number: int, _frame: object) -> None:
        pass

    before = signal.signal(signal.SIGPROF, handler)
    try:
        limits = Limits(seconds=0.04)
        for _ in range(2):
            limits.within(int)
            assert signal.getsignal(signal.SIGPROF) != handler
            burn_until(lambda: signal.getsignal(signal.SIGPROF) == handler)
            assert timer_stopped()
    finally:
        signal.signal(signal.SIGPROF, before)


def test_a_rendering_that_fills_memory_which_was_mapped_before_is_ended() -> None:
    """The address space does not grow by it. It is filled bit by bit: the kernel ticks as late as it likes."""
    limits = Limits(seconds=60.0, memory=8 << 20)
    with mmap.mmap(-1, 128 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as mapped:

        def fill() -> None:
            for page in range(0, len(mapped), mmap.PAGESIZE):
                mapped[page] = 1
                if page % (1 << 20) == 0:
                    burn(0.03)

        with pytest.raises(LimitExceeded, match=r"^takes more than 8 MiB of memory$"):
            limits.within(fill)


_ENDS = """
import time
from tfprov.templating.limits import Limits
class Library:
    def __del__(self, clock=time.process_time):
        end = clock() + 0.3
        while clock() < end:
            pass
library = Library()
Limits().within(int)
"""


def test_a_process_that_ends_right_after_a_rendering_is_not_ended_by_its_timer() -> None:
    """Python gives signals their default effect before it removes its modules, which may take a while."""
    assert subprocess.run([sys.executable, "-c", _ENDS], check=False).returncode == 0


_USER_LIMIT = """
import resource
from tfprov.templating.limits import Limits
space = resource.RLIMIT_AS
hard = resource.getrlimit(space)[1]
most = 1 << 40 if hard == resource.RLIM_INFINITY else hard  # the tests may have a limit of their own
for user, memory in ((most, 1 << 28), (most // 2, most)):
    resource.setrlimit(space, (user, hard))
    inside = Limits(memory=memory).within(resource.getrlimit, space)
    print(memory < inside[0] < user, inside == (user, hard), resource.getrlimit(space) == (user, hard))
"""


def test_a_rendering_has_the_lower_of_its_own_limit_and_the_users_and_leaves_that_as_it_was() -> None:
    lines = subprocess.run([sys.executable, "-c", _USER_LIMIT], capture_output=True, check=True).stdout.splitlines()
    assert lines == [b"True False True", b"False True True"]


_NO_PROC = """
import resource
from tfprov.templating.limits import Limits
limits = Limits()
data = b"x" * (64 << 20)  # a peak that nothing below exceeds
del data
resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert peak > 64 << 10, peak
print(limits.within(int), limits._measure() == (0, peak * 1024))
"""


def test_without_proc_the_memory_is_the_peak_in_bytes_and_the_address_space_is_unknown() -> None:
    """A process without a free file descriptor cannot read /proc either."""
    assert subprocess.run([sys.executable, "-c", _NO_PROC], capture_output=True, check=True).stdout == b"0 True\n"


@pytest.mark.parametrize(
    ("separator", "item", "most"),
    [("", 1, 1_000_000), ("", "a", 1_000_000), ("", "ab", 500_000), (",", "a", 500_000), (", ", None, 333_333)],
)
def test_a_joined_text_may_have_a_million_characters_and_no_more(separator: str, item: object, most: int) -> None:
    """A value that is no text counts as one character."""
    assert check_joined(separator, iter([item] * most)) == [item] * most
    with pytest.raises(SecurityError, match=r"^a value of more than 1,000,000 characters or elements$"):
        check_joined(separator, [item] * (most + 1))


def test_the_memory_that_a_rendering_may_take_is_named() -> None:
    assert Limits(memory=64 << 20).too_much_memory() == "takes more than 64 MiB of memory"


def test_a_rendering_has_the_limits_that_the_documentation_names() -> None:
    limits = Limits()
    words = f"A rendering ends within {limits.seconds:g} CPU seconds and {limits.memory / 2**30:g} GiB"
    assert words in (ROOT / "docs" / "security.md").read_text()
