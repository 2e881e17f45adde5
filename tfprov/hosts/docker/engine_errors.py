"""Map errors of Docker engines, the docker command and the SDK to a problem and its fix."""

import re
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException

from tfprov.errors import HostError, TfprovError, Unreachable, one_line, printable
from tfprov.hosts.bounds import AnswerTooLong, OutputTooLong
from tfprov.hosts.docker.engine_api.answers import MalformedAnswer
from tfprov.hosts.docker.engine_api.sdk import docker
from tfprov.hosts.program_checks import suggest_correction

_KNOWN_ERRORS: tuple[tuple[str, str, str], ...] = (
    (
        r"port is already allocated|address already in use",
        "port {port} is taken",
        "stop what listens there, or choose another `port`",
    ),
    (r"cannot assign requested address", "it has no address {address}", "correct `address` under `tfprov:`"),
    (
        r"no space left on device",
        "no space left on its disk: {text}",
        "free some, for example with `docker system prune`",
    ),
    (
        r"permission denied.*(docker|unix)|dial unix .*permission denied",
        "{user} may not use its Docker engine",
        "add the user to the group `docker` there (that is root on the host), or set `ansible_become: true`",
    ),
    (
        r"cannot connect to the docker daemon|is the docker daemon running|docker\.sock: connect",
        "its Docker engine does not run",
        "start it there: `systemctl start docker`",
    ),
    (
        r"docker: (command )?not found|docker: no such file|sudo: docker: command not found",
        "Docker is not installed",
        "install it there (Debian: `apt-get install docker.io`)",
    ),
    (r"'?(dial-stdio|system)'? is not a docker command|dial-stdio", "its Docker is too old: {text}", "{update}"),
    (
        r"sudo: (?P<name>.+)",
        "sudo: {name}",
        "allow sudo without a password (NOPASSWD) there, or unset `ansible_become`",
    ),
    (r"no such image: (?P<name>\S+)", "the image {name} is not there", "deliver it: `tfprov image deliver`"),
    (
        r"pull access denied for (?P<name>[^\s,]+)|manifest for (?P<name2>\S+) not found|manifest unknown",
        "the image {name} is in no registry that its engine may read",
        "correct `image`, or log in there with `docker login`",
    ),
    (
        r'the container name "/?(?P<name>[^"]+)" is already in use by container "?(?P<id>[0-9a-f]{12})?',
        "a container called {name} is there already ({id})",
        "remove or rename it: `docker rm {name}`",
    ),
    (
        r"container (?P<id>[0-9a-f]{12})[0-9a-f]{52} is not running",
        "the container {id} does not run",
        "start its task with `tfprov up`; `tfprov cp` copies its files as it is",
    ),
    (
        r"could not select device driver.*gpu",
        "its engine cannot provide GPUs",
        "install nvidia-container-toolkit there",
    ),
    (
        r'adding custom device "(?P<name>[^"]+)": no such file',
        "it has no device {name}",
        "load the driver there, or leave it out of `devices`",
    ),
    (
        r"error setting rlimit",
        "its engine may not set such a limit",
        "lower it in `ulimits`, or raise the limits of the engine itself",
    ),
    (
        r'exec: "(?P<name>[^"]*)": (executable file not found|stat [^:]*: no such file|permission denied)',
        "the image has no program {name} that can be run",
        "{correction}",
    ),
)
"""Pattern (case-insensitive), problem, fix. The first match decides."""
_ENDPOINT = re.compile(
    r"(?:bind for|listen tcp[46]?|bind host port(?: for)?) (?P<address>\S*?):(?P<port>\d+)", re.IGNORECASE
)
MIN_API = "1.40"
"""The oldest supported API: engine 19.03, the first with device requests (GPUs)."""
UPDATE_FIX = "update it to Docker 19.03 or newer"
_SUSPECT_FIX = "is that a Docker engine? check what listens on its socket, and restart it"


def explain(text: str, user: str = "") -> tuple[str, str]:
    """Return problem and fix for an engine's error; its own text and no fix if it is unknown."""
    for pattern, problem, fix in _KNOWN_ERRORS:
        if match := re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            values = _placeholders(text, user) | {
                key.rstrip("2"): value for key, value in match.groupdict().items() if value
            }
            return problem.format(**values), fix.format(**values)
    return _shorten(text), ""


def _placeholders(text: str, user: str) -> dict[str, str]:
    address = _ENDPOINT.search(text)
    endpoint = address.groupdict() if address else {"address": "?", "port": "?"}
    program = re.search(r'exec: "(?P<name>[^"]*)"', text)
    program_fix = {"correction": suggest_correction(program["name"])} if program else {}
    return program_fix | {
        "name": "?",
        "id": "?",
        "text": _shorten(text),
        "user": user or "the user",
        "update": UPDATE_FIX,
        **endpoint,
    }


def _shorten(text: str) -> str:
    line = one_line(text.removeprefix("Error response from daemon: "))
    return line if len(line) <= 300 else f"{line[:297]}..."


NOT_FOUND = 404
"""The status of an answer about what is not there."""


class Refused(HostError):
    """A request that an engine has answered with the error `status`, such as 404 for a container that is gone."""

    def __init__(self, host: str, status: int, text: str, user: str = "") -> None:
        super().__init__(host, *explain(text, user))
        self.status = status


@contextmanager
def engine_errors(host: str, user: str = "") -> Iterator[None]:
    """Turn every error of an engine's answers, the docker SDK and its libraries into HostError."""
    try:
        yield
    except TfprovError:
        raise
    except MalformedAnswer as error:
        raise HostError(
            host, f"its Docker engine sent a malformed answer: {_shorten(str(error))}", _SUSPECT_FIX
        ) from error
    except AnswerTooLong as error:
        raise OutputTooLong(host, f"its Docker engine sent {error}: the rest is not read", _SUSPECT_FIX) from error
    except Exception as error:
        if (translated := _translated(host, error, user)) is None:
            raise
        try:
            raise translated from error
        finally:
            del translated  # its cause's traceback has this frame: a circle would keep the connection


def _translated(host: str, error: Exception, user: str) -> HostError | None:
    """Return the error for one of the SDK, of its libraries or of the connection; None for any other."""
    timeouts: tuple[type[Exception], ...] = (TimeoutError,)
    failures: tuple[type[Exception], ...] = (OSError, EOFError, HTTPException, struct.error)
    if "docker" in sys.modules:  # else the error is none of the SDK's
        import requests  # noqa: PLC0415
        import urllib3  # noqa: PLC0415

        if isinstance(error, docker.errors.BuildError):
            return HostError(host, f"the image cannot be built: {_shorten(str(error.msg))}")
        if isinstance(error, docker.errors.APIError):
            return HostError(host, *explain(str(error.explanation or error), user))
        if isinstance(error, docker.errors.StreamParseError):  # a stream ended within a frame
            return _connection_error(host, error, user)
        if isinstance(error, docker.errors.DockerException):
            return HostError(host, *explain(str(error), user))
        timeouts = (*timeouts, requests.Timeout, urllib3.exceptions.TimeoutError)
        failures = (*failures, requests.RequestException, urllib3.exceptions.HTTPError)
    if isinstance(error, timeouts):
        return HostError(host, "its Docker engine did not answer in time", "look at its load and its disk")
    return _connection_error(host, error, user) if isinstance(error, failures) else None


def _connection_error(host: str, error: BaseException, user: str) -> HostError:
    """Return the error for a failed connection, by the cause that urllib3 and requests wrap."""
    for cause in _causes(error):
        if isinstance(cause, HostError):
            return cause
        if isinstance(cause, FileNotFoundError | ConnectionRefusedError):
            return HostError(host, *explain("is the docker daemon running"))
        if isinstance(cause, PermissionError):
            return HostError(host, *explain("permission denied: docker", user))
    problem = f"its Docker engine closed the connection, outcome unknown: {_shorten(str(error))}"
    return Unreachable(host, problem, "look at the host, and run this again")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        wrapped = next((argument for argument in error.args if isinstance(argument, BaseException)), None)
        error = error.__cause__ or error.__context__ or wrapped


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of an API version like `1.41`, to compare it."""
    return tuple(map(int, version.split(".")))


def too_old_error(host: str, version: str) -> HostError:
    """Return the error for an engine whose API is older than MIN_API or unknown."""
    return HostError(host, f"its Docker engine is too old (API {printable(version)}, {MIN_API} is needed)", UPDATE_FIX)
