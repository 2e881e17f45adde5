"""What a program on this machine prints when it is asked: within a time, and no more than can be held."""

import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress

from tfprov.errors import InvalidInput, Position, Problem, masked, one_line, shown

TIMEOUT = 60.0
"""Seconds for one answer."""
MAX_BYTES = 64_000_000
"""Of one answer: an inventory of 10,000 hosts with some variables each is about a tenth of this."""
_KEPT = 4096
"""Bytes of the standard error, from its end."""


def answer(path: str, options: list[str], timeout: float = TIMEOUT) -> bytes:
    """Return what the program at `path` prints with `options`; InvalidInput when it fails, and with its last complaint.

    It gets no input, and is ended with all that it started when it takes longer than `timeout` seconds.
    """
    at, by_hand = Position(path), f"run `{shown(' '.join([path, *options]))}` by hand"
    try:
        process = subprocess.Popen(
            [os.path.abspath(path), *options],  # noqa: PTH100  a name without a slash would be looked for in PATH
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        lost = isinstance(error, FileNotFoundError)
        why = "its interpreter is not there" if lost else (error.strerror or str(error)).lower()
        raise _invalid(
            at, f"cannot be run: {why}", "correct its first line, such as `#!/usr/bin/env python3`"
        ) from None
    with process:
        try:
            out, err = _all(process, time.monotonic() + timeout)
        except TimeoutError:
            what = f"did not end within {timeout:g} s with `{options[0]}`"
            raise _invalid(at, what, by_hand) from None
        except OverflowError:
            what = f"printed more than {MAX_BYTES:,} bytes with `{options[0]}`"
            raise _invalid(at, what, by_hand) from None
    if process.returncode:
        raise _invalid(at, f"{_ending(process.returncode)} with `{options[0]}`{_last(err)}", by_hand)
    return out


def _all(process: "subprocess.Popen[bytes]", deadline: float) -> tuple[bytes, bytes]:
    """Return both outputs of a process, which is ended when that does not come to a good end, or by Ctrl-C."""
    try:
        return _read(process, deadline)
    except BaseException:
        # It leads a group of its own, in which is all that it started; Ctrl-C in the terminal does not reach them.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise


def _read(process: "subprocess.Popen[bytes]", deadline: float) -> tuple[bytes, bytes]:
    """Return both outputs of a process once it has ended; TimeoutError or OverflowError when that is too much."""
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, out)
        selector.register(process.stderr, selectors.EVENT_READ, err)
        while selector.get_map():
            ready = selector.select(max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                chunk = os.read(key.fd, 65536)
                key.data.extend(chunk)
                if not chunk:
                    selector.unregister(key.fileobj)
            del err[:-_KEPT]
            if len(out) > MAX_BYTES:
                raise OverflowError
    try:
        process.wait(max(0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return bytes(out), bytes(err)


def _ending(code: int) -> str:
    return f"ended with exit code {code}" if code > 0 else f"was killed by signal {-code}"


def _last(err: bytes) -> str:
    """Return the last line of a standard error, as messages repeat it."""
    lines = [line for line in masked(err.decode(errors="replace")).splitlines() if line.strip()]
    return f": {shown(one_line(lines[-1]))}" if lines else ""


def _invalid(at: Position, what: str, fix: str) -> InvalidInput:
    return InvalidInput([Problem(at, what, fix)])
