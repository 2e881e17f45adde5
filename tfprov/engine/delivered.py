"""Which image was delivered to which host, so that a tag that somebody moved there is noticed.

An engine's own id is kept, as it was when the image had come: engines know images by their configuration or, with
containerd's store, by their manifest. For a host without an entry, the image in the controller's layout decides.
"""

import json
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfprov.files import private_directory, replace

_KEPT = 32
"""Images of a host that are remembered: more than ever stay there."""

Made = Callable[[str], Collection[str]]
"""Returns the ids of an image that the controller has made, by its name; none where it has not."""


class Delivered:
    """The file at `path`; `made` is asked about what is not in it."""

    def __init__(self, path: Path, made: Made = lambda _reference: ()) -> None:
        self._path, self._made = path, made
        self._lock = threading.Lock()

    def on(self, host: str) -> "DeliveredTo":
        """Return what was delivered to one host."""
        return DeliveredTo(self, host)

    def known(self, host: str, reference: str) -> Collection[str]:
        """Return the ids that the image `reference` may have on `host`; none where nobody knows."""
        kept = self._read().get(host, {}).get(reference)
        return (kept,) if kept else self._made(reference)

    def note(self, host: str, reference: str, image_id: str) -> None:
        """Remember the id that the engine of `host` gives to the image `reference`."""
        with self._lock:
            hosts = self._read()
            kept = hosts.get(host, {})
            if kept.get(reference) == image_id:
                return
            others = [(name, one) for name, one in kept.items() if name != reference]
            hosts[host] = dict([*others, (reference, image_id)][-_KEPT:])
            private_directory(self._path.parent)
            replace(self._path, json.dumps(hosts, indent=1).encode(), mode=0o600)

    def _read(self) -> dict[str, dict[str, str]]:
        """Return all that is remembered; nothing where the file cannot be read, as on a controller's first run."""
        try:
            hosts: Any = json.loads(self._path.read_text())
            return {host: {name: str(one) for name, one in images.items()} for host, images in hosts.items()}
        except (OSError, ValueError, AttributeError):
            return {}


@dataclass(frozen=True)
class DeliveredTo:
    """What was delivered to `host`. See Deliveries."""

    delivered: Delivered
    host: str

    def known(self, reference: str) -> Collection[str]:
        """See Deliveries."""
        return self.delivered.known(self.host, reference)

    def note(self, reference: str, image_id: str) -> None:
        """See Deliveries."""
        self.delivered.note(self.host, reference, image_id)
