"""What engines answer, as values of known types: the one place where their JSON is read. Pure.

A shape says what is used of an answer. Whoever gets one that was read here needs no doubts: a key that must be there is,
an optional one is absent, null or of its type, and every time is one. All else raises Nonsense.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn

from tfprov.errors import shown

Read = Callable[[Any, str], Any]
"""Takes a value and the name of its place; returns the value, or raises Nonsense."""

_GREATEST = 2**63
"""Integers of an engine have 64 bits."""
_DEPTH = 16
"""How deep the answers go that are only searched for a word."""
_LONGEST = 1024
"""Characters of a name; those of engines have 255 at most."""
_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "a flag", type(None): "nothing"}


class Nonsense(ValueError):
    """An answer that no engine gives; the message says what is wrong with it, and not whose it is."""


def parsed(data: bytes) -> Any:
    """Return the one value of JSON in `data`. Raises Nonsense."""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_not_json)
    except UnicodeDecodeError:
        raise Nonsense("text that is not UTF-8") from None
    except RecursionError:
        raise Nonsense("JSON that is nested too deep") from None
    except ValueError as error:  # also an integer with more digits than Python reads
        start = shown(data[:40].decode("utf-8", errors="replace").strip())
        raise Nonsense(f"no JSON: `{start}`" if start else "nothing") from error


def _not_json(word: str) -> NoReturn:
    raise ValueError(word)


def seconds(when: str) -> float | None:
    """Return a time of the engine as seconds since the epoch; None for its year 1, which stands for never."""
    if not when or when.startswith("0001-"):
        return None
    whole, _, fraction = when.rstrip("Z").partition(".")
    digits = "".join(character for character in fraction if character.isdecimal())[:6]
    try:
        return datetime.fromisoformat(f"{whole}.{digits or '0'}+00:00").timestamp()
    except (ValueError, OverflowError):
        raise Nonsense(f"the time `{shown(when)}`") from None


def text(value: Any, place: str) -> str:
    """Read a text that can be printed and sent."""
    if not isinstance(value, str):
        raise _wrong(value, place, "a text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Nonsense(f"half a character in {place}") from None
    return value


def name(value: Any, place: str) -> str:
    """Read a name or an id, which becomes a part of the next question."""
    if len(text(value, place)) > _LONGEST:
        raise Nonsense(f"a name of {len(value):,} characters in {place}")
    return str(value)


def number(value: Any, place: str) -> int:
    """Read an integer."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(value, place, "an integer")
    if not -_GREATEST <= value < _GREATEST:
        raise Nonsense(f"a number in {place} that has more than 64 bits")
    return value


def flag(value: Any, place: str) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise _wrong(value, place, "a flag")
    return value


def moment(value: Any, place: str) -> str:
    """Read a time that `seconds` understands."""
    seconds(text(value, place))
    return str(value)


def _stamp(value: Any, place: str) -> str:
    """Read a time of a file, which has the engine's own time zone."""
    try:
        when = datetime.fromisoformat(text(value, place))
        has_zone = when.tzinfo is not None
        when.astimezone(UTC)
    except (ValueError, OverflowError):
        has_zone = False
    if not has_zone:
        raise Nonsense(f"the time `{shown(value)}` in {place}")
    return str(value)


def anything(value: Any, place: str) -> Any:
    """Read what is only searched for a word: of any type, but not of any depth."""
    _measure(value, place, _DEPTH)
    return value


def _measure(value: Any, place: str, left: int) -> None:
    if not left:
        raise Nonsense(f"{place} that is nested too deep")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _measure(part, place, left - 1)


def listing(each: Read) -> Read:
    """Return what reads a list."""

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, list):
            raise _wrong(value, place, "a list")
        return [each(part, f"{place}[{position}]") for position, part in enumerate(value)]

    return read


def mapping(each: Read) -> Read:
    """Return what reads an object with any keys."""

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(value, place, "an object")
        return {text(key, place): each(part, f"{place}.{shown(key)}") for key, part in value.items()}

    return read


def maybe(read_it: Read) -> Read:
    """Return what reads a value that may be absent, or null."""

    def read(value: Any, place: str) -> Any:
        return None if value is None else read_it(value, place)

    return read


def record(**parts: Read) -> Read:
    """Return what reads an object with these keys; others stay as they are."""

    def read(value: Any, place: str) -> Any:
        if not isinstance(value, dict):
            raise _wrong(value, place, "an object")
        for key, part in parts.items():
            found = part(value.get(key), f"{place}.{key}" if place else key)
            if key in value:
                value[key] = found
        return value

    return read


def _wrong(value: Any, place: str, wanted: str) -> Nonsense:
    kind = _KINDS.get(type(value), "a number")
    return Nonsense(f"{kind} instead of {wanted}{f' in {place}' if place else ''}")


_LABELS = maybe(mapping(text))
_TEXTS = maybe(listing(text))
_NAMED = record(Id=name)
_VOLUME = record(Name=name, Labels=_LABELS)

VERSION = record(ApiVersion=maybe(text), Version=maybe(text), Os=maybe(text), Arch=maybe(text))
INFO = record(
    Architecture=maybe(text), OSType=maybe(text), Driver=maybe(text), DriverStatus=maybe(listing(listing(text))),
    DockerRootDir=maybe(text), MemTotal=maybe(number), NCPU=maybe(number), SecurityOptions=_TEXTS,
    MemoryLimit=maybe(flag), CpuCfsQuota=maybe(flag), Runtimes=anything, DiscoveredDevices=anything,
)  # fmt: skip
LISTED = listing(
    record(
        Id=name, Names=_TEXTS, ImageID=maybe(name), State=maybe(text), Labels=_LABELS,
        Ports=maybe(listing(record(IP=maybe(text), PublicPort=maybe(number)))),
    )
)  # fmt: skip
CONTAINER = record(
    Id=name, Name=name, Image=name, Created=_stamp, RestartCount=number,
    State=record(
        Status=text, Running=flag, ExitCode=number, Error=maybe(text), OOMKilled=maybe(flag),
        StartedAt=moment, FinishedAt=moment,
    ),
    Config=record(
        Labels=_LABELS, Tty=flag, WorkingDir=maybe(text), Env=_TEXTS, Image=maybe(text), Entrypoint=_TEXTS,
        User=maybe(text),
    ),
    HostConfig=record(Memory=maybe(number), ReadonlyRootfs=maybe(flag), RestartPolicy=maybe(record(Name=maybe(text)))),
    Mounts=maybe(listing(record(Name=maybe(text), Destination=maybe(text)))),
)  # fmt: skip
IMAGES = listing(record(Id=name, RepoTags=_TEXTS, RepoDigests=_TEXTS))
IMAGE = record(
    Id=name, RepoTags=_TEXTS, RepoDigests=_TEXTS, Os=maybe(text), Architecture=maybe(text), Size=maybe(number),
    RootFS=maybe(record(Layers=_TEXTS)), Metadata=maybe(record(LastTagTime=maybe(text))),
    Config=maybe(record(Entrypoint=_TEXTS, Env=_TEXTS, WorkingDir=maybe(text), User=maybe(text), Labels=_LABELS)),
)  # fmt: skip
NETWORK = record(IPAM=record(Config=maybe(listing(record(Gateway=maybe(text))))))
CHANGES = maybe(listing(record(Path=text, Kind=number)))
STAT = record(name=maybe(text), size=number, mode=number, mtime=_stamp)
MESSAGE = record(error=maybe(text), stream=maybe(text), aux=maybe(record(ID=maybe(name))))
"""One of those that an engine sends while it builds, pulls and loads."""

_SHAPES: tuple[tuple[str, str, Read], ...] = (
    ("GET", r"/version", VERSION),
    ("GET", r"/info", INFO),
    ("GET", r"/containers/json", LISTED),
    ("GET", r"/containers/[^/]+/json", CONTAINER),
    ("GET", r"/containers/[^/]+/changes", CHANGES),
    ("GET", r"/images/json", IMAGES),
    ("GET", r"/images/.+/json", IMAGE),
    ("GET", r"/networks/[^/]+", NETWORK),
    ("GET", r"/volumes", record(Volumes=maybe(listing(_VOLUME)))),
    ("GET", r"/volumes/[^/]+", _VOLUME),
    ("POST", r"/volumes/create", _VOLUME),
    ("GET", r"/exec/[^/]+/json", record(ExitCode=maybe(number))),
    ("POST", r"/containers/create|/containers/[^/]+/exec", _NAMED),
    ("POST", r"/containers/[^/]+/wait", record(StatusCode=number)),
)


def answer(method: str, path: str, data: bytes) -> Any:
    """Return what `data` says in answer to a request for `path`, which may begin with the API's version."""
    value = parsed(data)
    bare = re.sub(r"^/v\d+\.\d+(?=/)", "", path.partition("?")[0])
    for asked, pattern, read in _SHAPES:
        if asked == method and re.fullmatch(pattern, bare):
            return read(value, "")
    return value


def status_of_file(header: str) -> Mapping[str, Any]:
    """Return what an engine says of a file in the header of an archive of it."""
    try:
        data = base64.b64decode(header, validate=True)
    except ValueError:
        raise Nonsense("a header about a file that is not base64") from None
    found: Mapping[str, Any] = STAT(parsed(data), "")
    return found


def messages(line: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the messages of a line that an engine sends while it works: one, as a rule."""
    if not line.strip():
        return
    try:
        yield MESSAGE(parsed(line), "")
    except Nonsense as error:
        whole = list(_apart(line))
        if len(whole) < 2:
            raise error from None
        yield from (MESSAGE(one, "") for one in whole)


def _apart(line: bytes) -> Iterator[Any]:
    """Yield the values of JSON that stand one behind the other; nothing from where that is not so."""
    rest = line.decode("utf-8", errors="replace").strip()
    while rest:
        try:
            value, end = json.JSONDecoder(parse_constant=_not_json).raw_decode(rest)
        except (ValueError, RecursionError):
            raise Nonsense("no JSON") from None
        yield value
        rest = rest[end:].lstrip()


def complaint(data: bytes) -> str:
    """Return the words of an engine's error, whatever it looks like."""
    try:
        found = parsed(data)
        said = found.get("message") if isinstance(found, dict) else None
        return text(said, "message") if said else ""
    except Nonsense:
        return data.decode("utf-8", errors="replace").strip()
