"""The loaded model: the newest version on disk, replaced by a newer one while requests go on."""

from __future__ import annotations

import threading
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfprov.runtime.lazy_tensorflow import tensorflow
from tfprov.runtime.serving import rest
from tfprov.runtime.serving.versions import newest, versions

Log = typing.Callable[[str], None]


@dataclass(frozen=True)
class Loaded:
    """A version in memory, with its signatures by name."""

    version: int
    model: Any
    signatures: Mapping[str, Any] = field(default_factory=dict)

    def inputs(self, signature: str) -> dict[str, Any]:
        """Return the TensorSpecs of a signature's inputs, by name. Raises BadRequest for an unknown signature."""
        if signature not in self.signatures:
            has = ", ".join(sorted(self.signatures)) or "none"
            raise rest.BadRequest(f"version {self.version} has no signature {signature!r}; it has {has}")
        return dict(self.signatures[signature].structured_input_signature[1])

    def predict(self, body: bytes) -> dict[str, Any]:
        """Answer a request to predict. Raises BadRequest."""
        request = rest.parse_prediction(body, lambda signature: sorted(self.inputs(signature)))
        specs = self.inputs(request.signature)
        tf = tensorflow()
        try:
            tensors = {name: tf.constant(value, specs[name].dtype) for name, value in request.inputs.items()}
            outputs = self.signatures[request.signature](**tensors)
        except (ValueError, TypeError, tf.errors.OpError) as error:
            raise rest.BadRequest(" ".join(str(error).split())[:500]) from None
        return rest.predictions({name: _values(tensor) for name, tensor in outputs.items()}, by_row=request.by_row)

    def metadata(self, name: str) -> dict[str, Any]:
        """Return the answer to a question for the metadata of the model `name`."""
        definitions = {signature: self._definition(signature) for signature in sorted(self.signatures)}
        return {
            "model_spec": {"name": name, "signature_name": "", "version": str(self.version)},
            "metadata": {"signature_def": {"signature_def": definitions}},
        }

    def _definition(self, signature: str) -> dict[str, Any]:
        outputs = self.signatures[signature].structured_outputs
        return {
            "inputs": {name: _info(spec) for name, spec in self.inputs(signature).items()},
            "outputs": {name: _info(spec) for name, spec in outputs.items()},
            "method_name": "tensorflow/serving/predict",
        }


def _values(tensor: Any) -> Any:
    value = tensor.numpy()
    return value if isinstance(value, bytes) else value.tolist()  # one text comes as it is, everything else from NumPy


def _info(spec: Any) -> dict[str, Any]:
    shape = None if spec.shape.rank is None else spec.shape.as_list()
    return {**rest.tensor_info(spec.dtype.as_datatype_enum, shape), "name": spec.name or ""}


def load(version: int, path: Path) -> Loaded:
    """Load the SavedModel at `path`. Raises whatever TensorFlow raises."""
    model = tensorflow().saved_model.load(str(path))
    return Loaded(version, model, dict(model.signatures))


class ServedModel:
    """The newest version of the model `name` below `base`; `refresh` looks for a newer one.

    A version that cannot be loaded is tried again at each refresh, reported once, and the one before it stays. So it does
    while `base` cannot be read.
    """

    def __init__(self, name: str, base: Path, log: Log, loader: Callable[[int, Path], Loaded] = load) -> None:
        self.name, self.base, self._log, self._load = name, base, log, loader
        self.loaded: Loaded | None = None
        self.failed: dict[int, str] = {}
        self._unread = ""
        self._refreshing = threading.Lock()

    def refresh(self) -> bool:
        """Load the newest version on disk unless it is loaded; return whether another one is served now."""
        with self._refreshing:
            by_number = self._versions()
            number = newest(by_number)
            if number is None or (self.loaded is not None and number == self.loaded.version):
                return False
            try:
                loaded = self._load(number, by_number[number])
            except Exception as error:
                self._report(number, error)
                return False
            self.failed.pop(number, None)
            self.loaded = loaded
            self._log(f"serves version {number} of {self.name}")
            return True

    def _versions(self) -> dict[int, Path]:
        """Return the versions on disk; none while they cannot be listed."""
        try:
            there, self._unread = versions(self.base), ""
        except OSError as error:  # of a network file system, it may pass
            reason = f"{error.filename or self.base} cannot be read: {error.strerror}"
            if reason != self._unread:
                self._log(f"{reason}; looks again for versions of {self.name}")
            self._unread = reason
            return {}
        return there

    def _report(self, number: int, error: Exception) -> None:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        if self.failed.get(number) != reason:
            self._log(f"cannot load version {number} of {self.name}: {reason}")
        self.failed[number] = reason

    def answer(self, method: str, path: str, body: bytes) -> dict[str, Any]:
        """Answer a request. Raises BadRequest."""
        target = rest.parse_path(path)
        if target.model != self.name:
            raise rest.BadRequest(f"Could not find any versions of model {target.model}", 404)
        if not target.verb:
            return self._status(target.version)
        loaded = self.loaded
        if loaded is None or target.version not in (None, loaded.version):
            version = "" if target.version is None else f", version {target.version}"
            raise rest.BadRequest(f"Servable not found for request: {self.name}{version}: it is not loaded", 404)
        if target.verb == "metadata":
            return loaded.metadata(self.name)
        if method != "POST":
            raise rest.BadRequest("`predict` is a POST request", 405)
        return loaded.predict(body)

    def _status(self, version: int | None) -> dict[str, Any]:
        entries = [rest.status(number, "END", reason) for number, reason in sorted(self.failed.items(), reverse=True)]
        if self.loaded is not None:
            entries.append(rest.status(self.loaded.version))
        entries = [entry for entry in entries if version is None or entry["version"] == str(version)]
        if not entries:
            raise rest.BadRequest(f"Could not find any versions of model {self.name}", 404)
        return {"model_version_status": entries}
