"""Parse and validate the JSON of engines' answers. Pure.

A reader per answer declares the fields that are used. In a parsed answer required keys exist, optional ones are absent,
null or of their type, and times are valid. Anything else raises MalformedAnswer.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn

from tfprov.errors import printable

Reader = Callable[[Any, str], Any]
"""Takes a value and its path in the answer; returns the checked value, or raises MalformedAnswer."""

_INT_LIMIT = 2**63
"""Engines' integers have 64 bits."""
_MAX_DEPTH = 16
"""Maximum nesting of values that are only searched for a word."""
_MAX_NAME_LENGTH = 1024
"""Maximum characters of a name; engines allow 255."""
_TYPE_NAMES = {dict: "an object", list: "a list", str: "a text", bool: "a flag", type(None): "nothing"}


class MalformedAnswer(ValueError):
    """An answer that no engine sends. The message describes the fault without the host."""


def parse_json(data: bytes) -> Any:
    """Return the JSON value in `data`. Raises MalformedAnswer."""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=not_json)
    except UnicodeDecodeError:
        raise MalformedAnswer("text that is not UTF-8") from None
    except RecursionError:
        raise MalformedAnswer("JSON that is nested too deep") from None
    except ValueError as error:  # also an integer with more digits than Python reads
        start = printable(data[:40].decode("utf-8", errors="replace").strip())
        raise MalformedAnswer(f"no JSON: `{start}`" if start else "nothing") from error


def not_json(word: str) -> NoReturn:
    """Refuse what Python reads, and JSON has not, such as NaN."""
    raise ValueError(word)


def parse_time(time: str) -> float | None:
    """Return an engine's time as seconds since the epoch; None for year 1, which means never."""
    if not time or time.startswith("0001-"):
        return None
    values, _, fraction = time.rstrip("Z").partition(".")
    digits = "".join(character for character in fraction if character.isdecimal())[:6]
    try:
        return datetime.fromisoformat(f"{values}.{digits or '0'}+00:00").timestamp()
    except (ValueError, OverflowError):
        raise MalformedAnswer(f"the time `{printable(time)}`") from None


def read_text(value: Any, path: str) -> str:
    """Read a string that can be encoded as UTF-8."""
    if not isinstance(value, str):
        raise _type_error(value, path, "a text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise MalformedAnswer(f"half a character in {path}") from None
    return value


def read_name(value: Any, path: str) -> str:
    """Read a name or an id, which becomes part of a later request."""
    if len(read_text(value, path)) > _MAX_NAME_LENGTH:
        raise MalformedAnswer(f"a name of {len(value):,} characters in {path}")
    return str(value)


def read_int(value: Any, path: str) -> int:
    """Read an integer."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _type_error(value, path, "an integer")
    if not -_INT_LIMIT <= value < _INT_LIMIT:
        raise MalformedAnswer(f"a number in {path} that has more than 64 bits")
    return value


def read_flag(value: Any, path: str) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise _type_error(value, path, "a flag")
    return value


def read_time(value: Any, path: str) -> str:
    """Read a time that `parse_time` accepts."""
    parse_time(read_text(value, path))
    return str(value)


def _read_file_time(value: Any, path: str) -> str:
    """Read a file's time, which is in the engine's time zone."""
    try:
        time = datetime.fromisoformat(read_text(value, path))
        has_zone = time.tzinfo is not None
        time.astimezone(UTC)
    except (ValueError, OverflowError):
        has_zone = False
    if not has_zone:
        raise MalformedAnswer(f"the time `{printable(value)}` in {path}")
    return str(value)


def read_any(value: Any, path: str) -> Any:
    """Read a value of any type that is only searched for a word; its depth is limited."""
    _check_depth(value, path, _MAX_DEPTH)
    return value


def _check_depth(value: Any, path: str, levels: int) -> None:
    if not levels:
        raise MalformedAnswer(f"{path} that is nested too deep")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(item, path, levels - 1)


def list_of(read_item: Reader) -> Reader:
    """Return the reader of a list."""

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise _type_error(value, path, "a list")
        return [read_item(item, f"{path}[{position}]") for position, item in enumerate(value)]

    return read


def dict_of(read_item: Reader) -> Reader:
    """Return the reader of an object with any keys."""

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _type_error(value, path, "an object")
        return {read_text(key, path): read_item(item, f"{path}.{printable(key)}") for key, item in value.items()}

    return read


def optional(read_value: Reader) -> Reader:
    """Return the reader of a value that may be absent or null."""

    def read(value: Any, path: str) -> Any:
        return None if value is None else read_value(value, path)

    return read


def object_of(**fields: Reader) -> Reader:
    """Return the reader of an object with these keys; others are not checked."""

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _type_error(value, path, "an object")
        for key, item in fields.items():
            result = item(value.get(key), f"{path}.{key}" if path else key)
            if key in value:
                value[key] = result
        return value

    return read


def _type_error(value: Any, path: str, expected: str) -> MalformedAnswer:
    type_name = _TYPE_NAMES.get(type(value), "a number")
    return MalformedAnswer(f"{type_name} instead of {expected}{f' in {path}' if path else ''}")


_TEXT, _NUMBER, _FLAG = optional(read_text), optional(read_int), optional(read_flag)
_LABELS = optional(dict_of(read_text))
_TEXTS = optional(list_of(read_text))
_WITH_ID = object_of(Id=read_name)
_VOLUME = object_of(Name=read_name, Labels=_LABELS)

VERSION = object_of(ApiVersion=_TEXT, Version=_TEXT, Os=_TEXT, Arch=_TEXT)
INFO = object_of(
    Architecture=_TEXT, OSType=_TEXT, Driver=_TEXT, DriverStatus=optional(list_of(list_of(read_text))),
    DockerRootDir=_TEXT, Containerd=optional(object_of(Address=_TEXT)), MemTotal=_NUMBER, NCPU=_NUMBER,
    SecurityOptions=_TEXTS, MemoryLimit=_FLAG, CpuCfsQuota=_FLAG, Runtimes=read_any, DiscoveredDevices=read_any,
)  # fmt: skip
CONTAINER_LIST = list_of(
    object_of(
        Id=read_name, Names=_TEXTS, ImageID=optional(read_name), State=_TEXT, Labels=_LABELS,
        Ports=optional(list_of(object_of(IP=_TEXT, PublicPort=_NUMBER))),
    )
)  # fmt: skip
CONTAINER = object_of(
    Id=read_name, Name=read_name, Image=read_name, Created=_read_file_time, RestartCount=read_int,
    State=object_of(
        Status=read_text, Running=read_flag, ExitCode=read_int, Error=_TEXT, OOMKilled=_FLAG,
        StartedAt=read_time, FinishedAt=read_time,
    ),
    Config=object_of(
        Labels=_LABELS, Tty=read_flag, WorkingDir=_TEXT, Env=_TEXTS, Image=_TEXT, Entrypoint=_TEXTS,
        User=_TEXT,
    ),
    HostConfig=object_of(Memory=_NUMBER, ReadonlyRootfs=_FLAG, RestartPolicy=optional(object_of(Name=_TEXT))),
    Mounts=optional(list_of(object_of(Name=_TEXT, Destination=_TEXT))),
)  # fmt: skip
IMAGES = list_of(object_of(Id=read_name, RepoTags=_TEXTS, RepoDigests=_TEXTS))
IMAGE = object_of(
    Id=read_name, RepoTags=_TEXTS, RepoDigests=_TEXTS, Os=_TEXT, Architecture=_TEXT, Size=_NUMBER,
    RootFS=optional(object_of(Layers=_TEXTS)), Metadata=optional(object_of(LastTagTime=_TEXT)),
    Config=optional(object_of(Entrypoint=_TEXTS, Env=_TEXTS, WorkingDir=_TEXT, User=_TEXT, Labels=_LABELS)),
)  # fmt: skip
NETWORK = object_of(IPAM=object_of(Config=optional(list_of(object_of(Gateway=_TEXT)))))
CHANGES = optional(list_of(object_of(Path=read_text, Kind=read_int)))
STAT = object_of(read_name=_TEXT, size=read_int, mode=read_int, mtime=_read_file_time)
_INACTIVE = object_of(total_inactive_file=_NUMBER, inactive_file=_NUMBER)
STATS = object_of(
    read=optional(read_time), cpu_stats=optional(object_of(cpu_usage=optional(object_of(total_usage=_NUMBER)))),
    memory_stats=optional(object_of(usage=_NUMBER, stats=optional(_INACTIVE))),
)  # fmt: skip
_USAGE = object_of(Name=read_name, UsageData=optional(object_of(Size=_NUMBER)))

_ANSWERS: tuple[tuple[str, str, Reader], ...] = (
    ("GET", r"/version", VERSION),
    ("GET", r"/info", INFO),
    ("GET", r"/containers/json", CONTAINER_LIST),
    ("GET", r"/containers/[^/]+/json", CONTAINER),
    ("GET", r"/containers/[^/]+/changes", CHANGES),
    ("GET", r"/containers/[^/]+/stats", STATS),
    ("GET", r"/containers/[^/]+/top", object_of(Processes=list_of(list_of(read_text)))),
    ("GET", r"/images/json", IMAGES),
    ("GET", r"/images/.+/json", IMAGE),
    ("GET", r"/networks/[^/]+", NETWORK),
    ("GET", r"/volumes", object_of(Volumes=optional(list_of(_VOLUME)))),
    ("GET", r"/volumes/[^/]+", _VOLUME),
    ("GET", r"/system/df", object_of(Volumes=optional(list_of(_USAGE)))),
    ("POST", r"/volumes/create", _VOLUME),
    ("GET", r"/exec/[^/]+/json", object_of(ExitCode=_NUMBER)),
    ("POST", r"/containers/create|/containers/[^/]+/exec", _WITH_ID),
    ("POST", r"/containers/[^/]+/wait", object_of(StatusCode=read_int)),
)


def parse_answer(method: str, path: str, data: bytes) -> Any:
    """Return the parsed answer to a request for `path`, which may begin with the API version."""
    value = parse_json(data)
    bare = re.sub(r"^/v\d+\.\d+(?=/)", "", path.partition("?")[0])
    for verb, pattern, read in _ANSWERS:
        if verb == method and re.fullmatch(pattern, bare):
            return read(value, "")
    return value


def parse_file_status(header: str) -> Mapping[str, Any]:
    """Return the file status from the header of an archive answer."""
    try:
        data = base64.b64decode(header, validate=True)
    except ValueError:
        raise MalformedAnswer("a header about a file that is not base64") from None
    result: Mapping[str, Any] = STAT(parse_json(data), "")
    return result


def error_message(data: bytes) -> str:
    """Return the text of an engine's error of any format."""
    try:
        result = parse_json(data)
        message = result.get("message") if isinstance(result, dict) else None
        return read_text(message, "message") if message else ""
    except MalformedAnswer:
        return data.decode("utf-8", errors="replace").strip()
