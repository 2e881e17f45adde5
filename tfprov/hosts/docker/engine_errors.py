"""What a Docker engine, its client program and the SDK say when something fails, turned into what to do about it."""

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import docker
import requests
import urllib3

from tfprov.errors import HostError, TfprovError, Unreachable, one_line, shown
from tfprov.hosts.bounds import TooMuch
from tfprov.hosts.docker.api_types import Nonsense
from tfprov.hosts.docker.engine_client import TooLong
from tfprov.hosts.program_checks import correction

_REMEDIES: tuple[tuple[str, str, str], ...] = (
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
    (r"could not select device driver.*gpu", "its engine can give no GPU", "install nvidia-container-toolkit there"),
    (
        r'exec: "(?P<name>[^"]*)": (executable file not found|stat [^:]*: no such file|permission denied)',
        "the image has no program {name} that can be run",
        "{correction}",
    ),
)
"""Pattern in lower or upper case, what to say, how to mend it. The first that is found decides."""
_WHERE = re.compile(
    r"(?:bind for|listen tcp[46]?|bind host port(?: for)?) (?P<address>\S*?):(?P<port>\d+)", re.IGNORECASE
)
OLDEST = "1.40"
"""The oldest API that is spoken: engine 19.03, the first with device requests (GPUs)."""
UPDATE = "update it to Docker 19.03 or newer"
_SUSPECT = "is that a Docker engine? look at what listens on its socket, and restart it"


def explain(text: str, user: str = "") -> tuple[str, str]:
    """Return what an engine's error means and how to mend it; its own words where nothing better is known."""
    for pattern, what, fix in _REMEDIES:
        if found := re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            facts = _facts(text, user) | {key.rstrip("2"): value for key, value in found.groupdict().items() if value}
            return what.format(**facts), fix.format(**facts)
    return _short(text), ""


def _facts(text: str, user: str) -> dict[str, str]:
    where = _WHERE.search(text)
    place = where.groupdict() if where else {"address": "?", "port": "?"}
    program = re.search(r'exec: "(?P<name>[^"]*)"', text)
    mended = {"correction": correction(program["name"])} if program else {}
    return mended | {
        "name": "?",
        "id": "?",
        "text": _short(text),
        "user": user or "the user",
        "update": UPDATE,
        **place,
    }


def _short(text: str) -> str:
    line = one_line(text.removeprefix("Error response from daemon: "))
    return line if len(line) <= 300 else f"{line[:297]}..."


@contextmanager
def engine_errors(host: str, user: str = "") -> Iterator[None]:
    """Turn every error of the docker SDK, and of the libraries below it, into one line that names the host."""
    try:
        yield
    except TfprovError:
        raise
    except docker.errors.BuildError as error:
        raise HostError(host, f"the image cannot be built: {_short(str(error.msg))}") from error
    except docker.errors.APIError as error:
        raise HostError(host, *explain(str(error.explanation or error), user)) from error
    except Nonsense as error:
        raise HostError(host, f"its Docker engine answered nonsense: {_short(str(error))}", _SUSPECT) from error
    except TooLong as error:
        raise TooMuch(host, f"its Docker engine sent {error}: the rest is not read", _SUSPECT) from error
    except docker.errors.DockerException as error:
        raise HostError(host, *explain(str(error), user)) from error
    except (requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError) as error:
        raise HostError(host, "its Docker engine did not answer in time", "look at its load and its disk") from error
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, EOFError) as error:
        raise _broken(host, error, user) from error
    except (struct.error, docker.errors.StreamParseError) as error:  # a stream that ended within a frame
        raise _broken(host, error, user) from error


def _broken(host: str, error: BaseException, user: str) -> HostError:
    """The socket is not there, not ours, or broke off: the errors of urllib3 and requests wrap the one that tells."""
    for cause in _causes(error):
        if isinstance(cause, HostError):
            return cause
        if isinstance(cause, FileNotFoundError | ConnectionRefusedError):
            return HostError(host, *explain("is the docker daemon running"))
        if isinstance(cause, PermissionError):
            return HostError(host, *explain("permission denied: docker", user))
    what = f"its Docker engine broke off, outcome unknown: {_short(str(error))}"
    return Unreachable(host, what, "look at the host, and run this again")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        inner = next((argument for argument in error.args if isinstance(argument, BaseException)), None)
        error = error.__cause__ or error.__context__ or inner


def too_old(host: str, version: str) -> HostError:
    """Return the error for an engine whose API is older than OLDEST, or which does not say what it speaks."""
    return HostError(host, f"its Docker engine is too old (API {shown(version)}, {OLDEST} is needed)", UPDATE)
