"""Which files look like a saved model, by their names alone: TensorFlow's, Keras', and those of other libraries."""

import re
from collections.abc import Iterable

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


def models(paths: Iterable[str]) -> list[str]:
    """Return what to bring of `paths`, which `model_files` chose: a SavedModel and checkpoints by their directory.

    A directory is `.` where the paths are relative and it is theirs; what lies in a chosen directory is not listed.
    """
    roots = {_root(path) for path in paths}
    return sorted(root for root in roots if not any(lies_in(root, other) for other in roots if other != root))


def lies_in(path: str, directory: str) -> bool:
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
