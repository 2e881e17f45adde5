"""Export a model as a SavedModel in a numbered directory, the form that TensorFlow Serving loads, whole or not at all."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tfprov.runtime.lazy_tensorflow import tensorflow

FOLDER = "export"
"""The directory below the checkpoint directory; the setting `serving.model_base_path` has the same default."""
_UNFINISHED, _REPLACED = ".export-", ".replaced-"
"""How the names begin of the directories of an export and of the version that it replaces, while it lasts."""


def export_model(model: Any, version: int, directory: str | Path, signatures: Any = None) -> Path:
    """Write `model` to `directory`/`version` and return that path.

    It is written beside that directory and renamed, so that a server never loads half of it; a version that exists is
    replaced. A Keras 3 model without `signatures` is written by its own `export`, anything else by tf.saved_model.save.
    Raises ValueError for a negative version.
    """
    if version < 0:
        raise ValueError(f"the version of a model must be 0 or more, not {version}")
    base = Path(directory)
    base.mkdir(parents=True, exist_ok=True)
    _clean(base)
    beside = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=base))
    try:
        beside.chmod(0o755)  # mkdtemp's 0700 would keep a server of another user out
        _write(model, str(beside), signatures)
        return _put(beside, base / str(version))
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def write_aside(model: Any, signatures: Any = None) -> None:
    """Take part in the export of another replica: some variables can be read only by all replicas together."""
    with tempfile.TemporaryDirectory(prefix="tfprov-export-") as folder:
        _write(model, folder, signatures)


def _write(model: Any, path: str, signatures: Any) -> None:
    if signatures is None and callable(getattr(model, "export", None)):
        model.export(path)
    else:
        tensorflow().saved_model.save(model, path, signatures=signatures)


def _clean(base: Path) -> None:
    """Remove what killed exports left; put a version back that one of them had moved away. The chief alone exports."""
    for left in base.glob(f"{_REPLACED}*"):
        with contextlib.suppress(OSError):  # of another user, for example; what cannot be put back is not removed
            for version in left.iterdir():
                if not (base / version.name).exists():
                    version.rename(base / version.name)
            shutil.rmtree(left, ignore_errors=True)
    for left in base.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(left, ignore_errors=True)


def _put(beside: Path, target: Path) -> Path:
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=_REPLACED, dir=target.parent))
        target.rename(old / target.name)
        beside.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    else:
        beside.rename(target)
    return target
