"""Finds checkpoints by file names alone, and reads and writes TensorFlow's `checkpoint` text file.

A checkpoint is a prefix (`model.ckpt-448`, `ckpt-5`) with an index, `PREFIX.index`, and N shards,
`PREFIX.data-IIIII-of-NNNNN`; the graph API adds `PREFIX.meta`, which no restore of the weights needs. TensorFlow saves
the shards, then the index, then `checkpoint`, so a file that is present is complete, unless the directory was copied
meanwhile. The contents are checked elsewhere. Standard library only, because tasks use it too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

STATE = "checkpoint"
"""TensorFlow's text file that names the newest checkpoint of a directory."""
MODEL_SERIES = "model.ckpt"
"""What `tfprov.runtime` calls its checkpoints, with their step behind it; TensorFlow's hook of saving does the same."""
NO_STEP = -1
"""The step of a prefix without one, such as Keras' `cp.ckpt`: it sorts before every prefix with a step."""

_FILE = re.compile(r"(?P<prefix>[^/]+)\.(?:index|data-(?P<shard>[0-9]{5})-of-(?P<total>[0-9]{5}))", re.ASCII)
_UNFINISHED = re.compile(r"-[0-9]+_temp(?:_[0-9a-f]+)?\Z|\.tempstate[0-9]*\Z|\.part\Z")
_LEFTOVER = re.compile(
    r"\.tempstate|-[0-9]+_temp(?:_[0-9a-f]+)?(?:/|\Z)|_temp(?:_[0-9a-f]+)?/part-[0-9]|\.part(?:/|\Z)", re.ASCII
)
# `.ckpt` may follow the step: Keras users write `cp-0004.ckpt`. 18 digits always fit TensorFlow's int64 step.
_STEP = re.compile(r"-([0-9]{1,18})(?:\.ckpt)?\Z")


@dataclass(frozen=True)
class CheckpointFiles:
    """The files of one prefix in one directory.

    `files` are those present (index, shards, and `.meta` if any), `missing` those that a restore needs, both sorted.
    Without any shard, their number is unknown, and `missing` has the pattern `PREFIX.data-?????-of-?????`. `conflict`
    describes shards that contradict each other; it is empty otherwise.
    """

    prefix: str
    step: int
    files: tuple[str, ...]
    missing: tuple[str, ...]
    conflict: str = ""

    @property
    def whole(self) -> bool:
        """Whether all files are present and agree."""
        return not self.missing and not self.conflict

    @property
    def is_half_without_step(self) -> bool:
        """Whether it has no step, and an index or shards alone: it may be any file, such as `embeddings.index`."""
        has_index = f"{self.prefix}.index" in self.files
        return self.step == NO_STEP and has_index != any(f"{self.prefix}.data-" in name for name in self.files)


def checkpoints(names: Iterable[str]) -> list[CheckpointFiles]:
    """Return the checkpoints in a directory listing, ascending by (step, prefix).

    `names` are those of one directory, without `/`; subdirectories, such as TensorFlow's `ckpt-5_temp/`, do not count.
    Leftovers of a killed save (`*.tempstate*`, `*-5_temp*`) and of a transfer (`*.part`) are ignored.
    """
    present = set(names)
    by_prefix: dict[str, list[re.Match[str]]] = defaultdict(list)
    for match in filter(None, map(_FILE.fullmatch, present)):
        if not _UNFINISHED.search(match["prefix"]):
            by_prefix[match["prefix"]].append(match)
    unsorted = (_checkpoint(prefix, matches, present) for prefix, matches in by_prefix.items())
    return sorted(unsorted, key=lambda checkpoint: (checkpoint.step, checkpoint.prefix))


def is_leftover(path: str) -> bool:
    """Whether a file was left by a killed save, or by a transfer. A program's own `cpu_temp/events` was not."""
    return bool(_LEFTOVER.search(path))


def newest_whole(names: Iterable[str], series: str | None = None) -> str | None:
    """Return the prefix of the whole checkpoint with the highest step, or None. Among equal steps the last name wins.

    Those of `series` win over all others, whatever their steps count.
    """
    whole = [checkpoint.prefix for checkpoint in checkpoints(names) if checkpoint.whole]
    of_series = [prefix for prefix in whole if series_of(prefix) == series]
    return next(reversed(of_series or whole), None)


def step_of(prefix: str) -> int:
    """Return the number after the last `-` that ends `prefix` (a `.ckpt` may follow), or NO_STEP."""
    match = _STEP.search(prefix)
    return int(match[1]) if match else NO_STEP


def series_of(prefix: str) -> str:
    """Return `prefix` without its step. Checkpoints of different series may count epochs, saves or steps."""
    return _STEP.sub("", prefix)


def last_component(path: str) -> str:
    """Return the last component of `path`: the part of a prefix that stays when its directory is moved."""
    return path.rpartition("/")[2]


def stays_below(name: str) -> bool:
    """Whether a relative name stays below its directory."""
    return "\0" not in name and not any(part in ("", ".", "..") for part in name.split("/"))


def _checkpoint(prefix: str, matches: Iterable[re.Match[str]], present: set[str]) -> CheckpointFiles:
    shards: dict[int, set[int]] = defaultdict(set)
    for match in matches:
        if match["total"]:
            shards[int(match["total"])].add(int(match["shard"]))
    index, meta = f"{prefix}.index", f"{prefix}.meta"
    files = [_shard(prefix, shard, total) for total, numbers in shards.items() for shard in numbers]
    files += [name for name in (index, meta) if name in present]
    missing = [] if index in present else [index]
    missing += _missing_shards(prefix, shards)
    return CheckpointFiles(prefix, step_of(prefix), tuple(sorted(files)), tuple(sorted(missing)), _conflict(shards))


def _shard(prefix: str, shard: int, total: int) -> str:
    return f"{prefix}.data-{shard:05d}-of-{total:05d}"


def _missing_shards(prefix: str, shards: Mapping[int, set[int]]) -> list[str]:
    if not shards:
        return [f"{prefix}.data-?????-of-?????"]
    return [_shard(prefix, shard, total) for total, numbers in shards.items() for shard in set(range(total)) - numbers]


def _conflict(shards: Mapping[int, set[int]]) -> str:
    """Return how shards contradict each other: two saves of one step with different numbers of ps leave shards of both."""
    if len(shards) > 1:
        return "shards of " + " and of ".join(map(str, sorted(shards)))
    beyond = [(shard, total) for total, numbers in shards.items() for shard in numbers if shard >= total]
    return "shard {} of only {}".format(*min(beyond)) if beyond else ""


# The `checkpoint` file is a CheckpointState in protobuf's text format. A literal has no line break; adjacent literals
# are one string. No text matches a part of the pattern in two ways, which limits a hostile file to one pass: possessive
# quantifiers would do the same, from Python 3.11 on.
_GAP = r"\s*(?:#[^\n]*(?:\n|\Z)\s*)*"
_LITERAL = r"""(?:"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\\\n]*(?:\\.[^'\\\n]*)*')"""
_FIELD = re.compile(
    rf"{_GAP}(?P<name>[a-z_]+){_GAP}:{_GAP}"
    rf"(?:(?P<strings>(?:{_LITERAL}{_GAP})+)|[-+.\w]+){_GAP}[;,]?{_GAP}"
)
_ESCAPE = re.compile(
    rb"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9a-fA-F]{1,2})|u(?P<u4>[0-9a-fA-F]{4})|U(?P<u8>[0-9a-fA-F]{8})|(?P<char>.))",
    re.DOTALL,
)
_CHARACTERS = dict(zip(b"abfnrtv\\'\"", b"\a\b\f\n\r\t\v\\'\""))
_NEWEST, _ALL = "model_checkpoint_path", "all_model_checkpoint_paths"


def parse_state(text: str) -> list[str]:
    """Return the paths in a `checkpoint` file, each once: the newest first, the others in the order of the file.

    Paths are unchanged: TensorFlow writes absolute ones of the directory it trained in. Bytes that are not UTF-8 become
    surrogate escapes, as in `os.fsdecode`. An invalid or truncated file gives [].
    """
    try:
        fields = list(_string_fields(text))
    except ValueError:
        return []
    # As in protobuf, the last value of a singular field wins.
    newest = [value for name, value in fields if name == _NEWEST][-1:]
    others = [value for name, value in fields if name == _ALL]
    return [path for path in dict.fromkeys(newest + others) if path]


def checkpoint_state(newest: str, all_prefixes: Sequence[str]) -> str:
    r"""Return a `checkpoint` file with `newest` and, oldest first, the others of `all_prefixes`.

    Only the last component of each path is written, which TensorFlow resolves against the directory of the file. The
    newest is last of all, as TensorFlow's own writer has it. Bytes outside ASCII are written `\ooo`, which readers of
    every version accept.
    """
    last = last_component(newest)
    others = [name for name in dict.fromkeys(map(last_component, all_prefixes)) if name not in ("", last)]
    lines = [(_NEWEST, last), *((_ALL, name) for name in [*others, last])]
    return "".join(f'{name}: "{_escape(value)}"\n' for name, value in lines)


def _string_fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield the string fields; ValueError for anything but text format."""
    position = 0
    while position < len(text):
        match = _FIELD.match(text, position)
        if not match:
            raise ValueError  # its text is of no use: such a file has no paths
        if match["strings"] is not None:
            literals = re.findall(f"{_LITERAL}|#[^\n]*", match["strings"])
            raw = b"".join(_unescape(literal[1:-1]) for literal in literals if literal[0] != "#")
            yield match["name"], raw.decode("utf-8", "surrogateescape")
        position = match.end()


def _unescape(literal: str) -> bytes:
    return _ESCAPE.sub(_decode_escape, literal.encode("utf-8", "surrogateescape"))


def _decode_escape(match: re.Match[bytes]) -> bytes:
    """Return the bytes of an escape; an unknown one is unchanged, as in protobuf's Python reader."""
    if match["octal"]:
        return bytes([int(match["octal"], 8)])
    if match["hex"]:
        return bytes([int(match["hex"], 16)])
    if code := match["u4"] or match["u8"]:
        return chr(int(code, 16)).encode()
    [character] = match["char"]
    return bytes([_CHARACTERS[character]]) if character in _CHARACTERS else match[0]


def _escape(value: str) -> str:
    raw = value.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b"\"'\\" else f"\\{byte:03o}" for byte in raw)


_MODEL_FILE = re.compile(r".+\.(?:keras|h5|hdf5|pt|pth|npz|ckpt|safetensors|tflite|onnx)", re.ASCII)
"""A file that is a whole model, also `.weights.h5`."""
_CHECKPOINT = re.compile(r".+\.index|.+\.data-[0-9]{5}-of-[0-9]{5}|checkpoint", re.ASCII)
"""A file of a checkpoint, which is gathered with its directory."""
_OF_DIRECTORY = re.compile(r"saved_model\.pb(?:txt)?|_CHECKPOINT_METADATA|manifest\.ocdbt", re.ASCII)
"""A file by which a directory is a model: a SavedModel, or a checkpoint of Orbax."""
CACHES = frozenset(
    {".cache", ".git", ".ipynb_checkpoints", ".keras", ".local", ".venv", "site-packages", "tfhub_modules"}
)
"""Directories of downloads and installations: they have pretrained weights, but no model of the training."""


def model_files(paths: Iterable[str]) -> list[str]:
    """Return the `paths` that look like a model or a part of one, sorted.

    An `.index` without shards is not part of a checkpoint.
    """
    candidates = [path for path in paths if _is_model_file(path)]
    shards = {path.rpartition(".data-")[0] for path in candidates}
    return sorted(path for path in candidates if not path.endswith(".index") or path[: -len(".index")] in shards)


def model_roots(paths: Iterable[str]) -> list[str]:
    """Return the files and directories to gather for `paths`, the result of `model_files`.

    SavedModels and checkpoints are gathered by directory, `.` for relative paths without one. Paths inside another
    result are left out.
    """
    roots = {_root(path) for path in paths}
    return sorted(root for root in roots if not any(is_within(root, other) for other in roots if other != root))


def final_models(paths: Iterable[str]) -> list[str]:
    """Return those of `model_files` whose names do not mislead: `.keras`, and what is in a SavedModel."""
    paths = list(paths)
    saved = [path.rpartition("/")[0] or "." for path in paths if path.rpartition("/")[2].startswith("saved_model.pb")]
    return [path for path in paths if path.endswith(".keras") or any(is_within(path, folder) for folder in saved)]


def is_within(path: str, directory: str) -> bool:
    """Whether `path` is `directory` or below it; both are normalized, and `.` contains every relative path."""
    is_root = directory == "." and not path.startswith("/")
    return is_root or path == directory or path.startswith(directory.rstrip("/") + "/")


def _is_model_file(path: str) -> bool:
    *parents, name = path.split("/")
    matches = any(pattern.fullmatch(name) for pattern in (_MODEL_FILE, _CHECKPOINT, _OF_DIRECTORY))
    return matches and CACHES.isdisjoint(parents)


def _root(path: str) -> str:
    parent, slash, name = path.rpartition("/")
    if not _CHECKPOINT.fullmatch(name) and not _OF_DIRECTORY.fullmatch(name):
        return path
    return parent or slash or "."
