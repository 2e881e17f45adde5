"""Sends one message to one target, a command or a webhook. Each try has a limit in seconds."""

import json
import os
import shlex
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from tfprov.errors import one_line
from tfprov.model.sections import Notify
from tfprov.notify.message import Message

SECONDS = 10.0
"""Seconds that a command or a server may take."""
_MOST = 4096
"""Bytes that are read of an answer, or of what a command prints."""


class NotSent(Exception):
    """The target was not reached, or refused; the text says why."""


def name_of(target: Notify) -> str:
    """Return what warnings call a target; of a URL the host only, as its path may be secret."""
    if target.url is not None:
        return urlsplit(target.url).hostname or "the webhook"
    return f"`{_words(target)[0]}`"


def send(
    target: Notify,
    message: Message,
    seconds: float = SECONDS,
    open_file: Callable[[], IO[bytes]] = tempfile.TemporaryFile,
) -> None:
    """Send a message to a target; `open_file` is for the output of a command. Raises NotSent."""
    if target.url is not None:
        _post(target.url, message, seconds)
    else:
        with _output(open_file) as printed:
            _run(_words(target), message, seconds, printed)


def _words(target: Notify) -> Sequence[str]:
    command = target.command or ""
    return shlex.split(command) or [command] if isinstance(command, str) else command


def _run(argv: Sequence[str], message: Message, seconds: float, printed: IO[bytes]) -> None:
    text = json.dumps(message.to_dict()).encode()
    environment = {**os.environ, **message.environment()}
    try:
        code = subprocess.run(
            argv,
            input=text,
            env=environment,
            stdout=printed,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
            start_new_session=True,  # Ctrl-C is for tfprov
        ).returncode
    except subprocess.TimeoutExpired:
        raise NotSent(f"it did not end within {seconds:g} s") from None
    except (OSError, ValueError) as error:
        raise NotSent(f"it cannot be started: {getattr(error, 'strerror', None) or error}") from None
    printed.seek(max(0, printed.seek(0, os.SEEK_END) - _MOST))
    last = one_line(printed.read().decode("utf-8", "replace").strip().rpartition("\n")[2])
    if code:
        raise NotSent(f"it ended with exit code {code}{f': {last}' if last else ''}")


def _output(open_file: Callable[[], IO[bytes]]) -> IO[bytes]:
    """Return a file for what a command prints: a pipe would be read into memory, however much it is."""
    try:
        return open_file()
    except OSError:  # the disk is full, of which the user is to be notified
        return Path(os.devnull).open("w+b", buffering=0)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the event is for the server that the inventory names."""

    def redirect_request(self, *_: object) -> None:
        """Refuse."""


def _post(url: str, message: Message, seconds: float) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "tfprov"}
    request = urllib.request.Request(url, json.dumps(message.to_dict()).encode(), headers, method="POST")  # noqa: S310
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=seconds) as answer:
            answer.read(_MOST)
    except urllib.error.HTTPError as error:
        error.close()
        raise NotSent(f"it answered {error.code} {one_line(str(error.reason))}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise NotSent(f"it cannot be reached: {one_line(str(reason))}") from None
    except Exception as error:  # http.client has errors of its own for answers that are none
        raise NotSent(f"it does not answer as a web server: {type(error).__name__}") from None
