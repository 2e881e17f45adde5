"""What files make a checkpoint, told from their names alone, and TensorFlow's `checkpoint` text file.

A checkpoint is a prefix (`model.ckpt-448`, `ckpt-5`) with an index, `PREFIX.index`, and N shards,
`PREFIX.data-IIIII-of-NNNNN`; the graph API adds `PREFIX.meta`, which no restore of the weights needs. TensorFlow saves
the shards, then the index, then `checkpoint`, so a name that is present is a file that was finished, unless somebody
copied the directory meanwhile. What the files hold is checked elsewhere: this module needs nothing but the standard
library, because it also runs inside the task's container.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

STATE = "checkpoint"
"""TensorFlow's text file that names the newest checkpoint of a directory."""
NO_STEP = -1
"""The step of a prefix that names none, such as Keras' `cp.ckpt`: it sorts before every prefix that does."""

_FILE = re.compile(r"(?P<prefix>[^/]+)\.(?:index|data-(?P<shard>[0-9]{5})-of-(?P<total>[0-9]{5}))", re.ASCII)
_UNFINISHED = re.compile(r"_temp(?:_[0-9a-f]+)?\Z|\.tempstate[0-9]*\Z|\.part\Z")
# `.ckpt` may follow the step: Keras users write `cp-0004.ckpt`. 18 digits always fit TensorFlow's int64 step.
_STEP = re.compile(r"-([0-9]{1,18})(?:\.ckpt)?\Z")


@dataclass(frozen=True)
class Checkpoint:
    """The files of one prefix in one directory.

    `files` are those present (index, shards, and `.meta` where there is one), `missing` those a restore would not find,
    both sorted. With no shard present their number is unknown, and `missing` has the pattern
    `PREFIX.data-?????-of-?????`. `torn` says what cannot be true of the shards together, or nothing.
    """

    prefix: str
    step: int
    files: tuple[str, ...]
    missing: tuple[str, ...]
    torn: str = ""

    @property
    def whole(self) -> bool:
        """Whether every file that the names promise is there."""
        return not self.missing and not self.torn


def checkpoints(names: Iterable[str]) -> list[Checkpoint]:
    """Return the checkpoints in a directory listing, ascending by (step, prefix).

    `names` are those of one directory, without a `/`: what lies in a folder below, such as TensorFlow's
    `ckpt-5_temp/part-…`, is not of this directory. Leftovers of a killed save (`*.tempstate*`, `*_temp*`) and of a
    transfer (`*.part`) are passed over.
    """
    present = set(names)
    found: dict[str, list[re.Match[str]]] = defaultdict(list)
    for match in filter(None, map(_FILE.fullmatch, present)):
        if not _UNFINISHED.search(match["prefix"]):
            found[match["prefix"]].append(match)
    every = (_checkpoint(prefix, matches, present) for prefix, matches in found.items())
    return sorted(every, key=lambda checkpoint: (checkpoint.step, checkpoint.prefix))


def newest_whole(names: Iterable[str]) -> str | None:
    """Return the prefix of the highest step that is whole, or None. Among equal steps the last name wins."""
    return next((found.prefix for found in reversed(checkpoints(names)) if found.whole), None)


def step_of(prefix: str) -> int:
    """Return the number after the last `-` that ends `prefix` (a `.ckpt` may follow), or NO_STEP."""
    match = _STEP.search(prefix)
    return int(match[1]) if match else NO_STEP


def last_component(path: str) -> str:
    """Return the last component of `path`: what is true of a prefix wherever its directory is moved to."""
    return path.rpartition("/")[2]


def _checkpoint(prefix: str, matches: Iterable[re.Match[str]], present: set[str]) -> Checkpoint:
    shards: dict[int, set[int]] = defaultdict(set)
    for match in matches:
        if match["total"]:
            shards[int(match["total"])].add(int(match["shard"]))
    index, meta = f"{prefix}.index", f"{prefix}.meta"
    files = [_shard(prefix, shard, total) for total, has in shards.items() for shard in has]
    files += [name for name in (index, meta) if name in present]
    missing = [] if index in present else [index]
    missing += _missing_shards(prefix, shards)
    return Checkpoint(prefix, step_of(prefix), tuple(sorted(files)), tuple(sorted(missing)), _torn(shards))


def _shard(prefix: str, shard: int, total: int) -> str:
    return f"{prefix}.data-{shard:05d}-of-{total:05d}"


def _missing_shards(prefix: str, shards: Mapping[int, set[int]]) -> list[str]:
    if not shards:
        return [f"{prefix}.data-?????-of-?????"]
    return [_shard(prefix, shard, total) for total, has in shards.items() for shard in set(range(total)) - has]


def _torn(shards: Mapping[int, set[int]]) -> str:
    """Two saves of one step with different numbers of ps leave shards of both; the index goes with only one of them."""
    if len(shards) > 1:
        return "shards of " + " and of ".join(map(str, sorted(shards)))
    beyond = [(shard, total) for total, has in shards.items() for shard in has if shard >= total]
    return "shard {} of only {}".format(*min(beyond)) if beyond else ""


# The `checkpoint` file is the message CheckpointState in protobuf's text format. A literal has no line break, literals
# side by side are one string. Possessive quantifiers keep a hostile file from costing more than one pass.
_GAP = r"(?:\s|#[^\n]*+)*+"
_LITERAL = r"""(?:"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')"""
_FIELD = re.compile(
    rf"{_GAP}(?P<name>[a-z_]++){_GAP}:{_GAP}"
    rf"(?:(?P<strings>(?:{_LITERAL}{_GAP})++)|[-+.\w]++){_GAP}[;,]?{_GAP}"
)
_ESCAPE = re.compile(
    rb"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9a-fA-F]{1,2})|u(?P<u4>[0-9a-fA-F]{4})|U(?P<u8>[0-9a-fA-F]{8})|(?P<char>.))",
    re.DOTALL,
)
_CHARACTERS = dict(zip(b"abfnrtv\\'\"", b"\a\b\f\n\r\t\v\\'\"", strict=True))
_NEWEST, _ALL = "model_checkpoint_path", "all_model_checkpoint_paths"


def parse_state(text: str) -> list[str]:
    """Return the paths a `checkpoint` file names, the newest first, the others in the order of the file, each once.

    Paths are as written: TensorFlow writes absolute ones for the directory it trained in. Bytes that are not UTF-8
    become surrogate escapes, as in `os.fsdecode`. A file that cannot be read, or ends in the middle, gives [].
    """
    try:
        fields = list(_string_fields(text))
    except ValueError:
        return []
    # Read as protobuf does: the last value of a field that should stand once wins.
    newest = [value for name, value in fields if name == _NEWEST][-1:]
    others = [value for name, value in fields if name == _ALL]
    return [path for path in dict.fromkeys(newest + others) if path]


def checkpoint_state(newest: str, all_prefixes: Sequence[str]) -> str:
    r"""Return a `checkpoint` file that names `newest` and, oldest first, the others of `all_prefixes`.

    Of every path only the last component is written, which TensorFlow takes relative to the directory of the file. The
    newest stands last among all, where TensorFlow's own writer puts it. Bytes outside ASCII are written `\ooo`, which
    readers of every age understand.
    """
    last = last_component(newest)
    others = [name for name in dict.fromkeys(map(last_component, all_prefixes)) if name not in ("", last)]
    lines = [(_NEWEST, last), *((_ALL, name) for name in [*others, last])]
    return "".join(f'{name}: "{_escape(value)}"\n' for name, value in lines)


def _string_fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield the fields that hold strings; ValueError for what is not text format."""
    position = 0
    while position < len(text):
        match = _FIELD.match(text, position)
        if not match:
            raise ValueError(f"not a text-format field at character {position}")
        if match["strings"] is not None:
            literals = re.findall(f"{_LITERAL}|#[^\n]*", match["strings"])
            raw = b"".join(_unescape(literal[1:-1]) for literal in literals if literal[0] != "#")
            yield match["name"], raw.decode("utf-8", "surrogateescape")
        position = match.end()


def _unescape(literal: str) -> bytes:
    return _ESCAPE.sub(_unescaped, literal.encode("utf-8", "surrogateescape"))


def _unescaped(match: re.Match[bytes]) -> bytes:
    """Return what an escape stands for; one that nobody knows stands for itself, as in protobuf's Python reader."""
    if match["octal"]:
        return bytes([int(match["octal"], 8)])
    if match["hex"]:
        return bytes([int(match["hex"], 16)])
    if code := match["u4"] or match["u8"]:
        return chr(int(code, 16)).encode()
    character = match["char"][0]
    return bytes([_CHARACTERS[character]]) if character in _CHARACTERS else match[0]


def _escape(value: str) -> str:
    raw = value.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b"\"'\\" else f"\\{byte:03o}" for byte in raw)


_ALONE = re.compile(r".+\.(?:keras|h5|hdf5|pt|pth|npz|ckpt)", re.ASCII)
"""A file that is a model by itself; `.weights.h5` is one of them."""
_CHECKPOINT = re.compile(r".+\.index|.+\.data-[0-9]{5}-of-[0-9]{5}|checkpoint", re.ASCII)
"""A file that is part of a checkpoint, which is brought with its directory."""
_SAVED_MODEL = re.compile(r"saved_model\.pb(?:txt)?", re.ASCII)
"""The file that makes its directory a SavedModel."""
CACHES = frozenset({".cache", ".git", ".ipynb_checkpoints", ".keras", ".local", ".venv", "site-packages"})
"""Directories for what was downloaded or installed: pretrained weights lie there, and no model of the training."""


def model_files(paths: Iterable[str]) -> list[str]:
    """Return those of `paths` that look like a model or a part of one, in order.

    An `.index` without the shards of its checkpoint beside it is some other file.
    """
    chosen = [path for path in paths if _looks_like_a_model(path)]
    shards = {path.rpartition(".data-")[0] for path in chosen}
    return sorted(path for path in chosen if not path.endswith(".index") or path.removesuffix(".index") in shards)


def model_roots(paths: Iterable[str]) -> list[str]:
    """Return what to bring of `paths`, which `model_files` chose: a SavedModel and checkpoints by their directory.

    A directory is `.` where the paths are relative and it is theirs; what lies in a chosen directory is not listed.
    """
    roots = {_root(path) for path in paths}
    return sorted(root for root in roots if not any(is_within(root, other) for other in roots if other != root))


def is_within(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or lies below it; both are normal, and `.` holds every relative path."""
    whole = directory == "." and not path.startswith("/")
    return whole or path == directory or path.startswith(directory.rstrip("/") + "/")


def _looks_like_a_model(path: str) -> bool:
    *parents, name = path.split("/")
    known = any(kind.fullmatch(name) for kind in (_ALONE, _CHECKPOINT, _SAVED_MODEL))
    return known and CACHES.isdisjoint(parents)


def _root(path: str) -> str:
    parent, slash, name = path.rpartition("/")
    if not _CHECKPOINT.fullmatch(name) and not _SAVED_MODEL.fullmatch(name):
        return path
    return parent or slash or "."
