"""The export of an image whose Dockerfile's last step was edited: `tfprov image build` beside `docker save >/dev/null`."""

import os
from collections.abc import Mapping
from typing import Any

from .bed import Bed
from .measure import Figure, Ran, compared, in_turn, run, say

_PEER = "docker save IMAGE >/dev/null"


class EditedImage:
    """An image on top of `image`, whose one step is another one after each edit; the layout has the one before."""

    def __init__(self, bed: Bed, image: str) -> None:
        self._bed, self._image, self._edits = bed, image, 0
        self._directory = bed.directory / "export"
        self._context = self._directory / "context"
        self._context.mkdir(parents=True)
        settings: Mapping[str, Any] = {
            "image": {"build": str(self._context)},
            "command": ["sh", "-c", "exec sleep 100000"],
            "ready": "start",
        }
        self._edit()
        self._cluster = bed.cluster(self._directory, {"ps": bed.hosts[:1], "worker": bed.hosts[1:2]}, settings)

    def _edit(self) -> None:
        self._edits += 1
        step = f"RUN echo {self._edits} >/edit && head -c 3000000 /dev/urandom >>/edit"
        (self._context / "Dockerfile").write_text(f"FROM {self._image}\nUSER root\n{step}\n")
        os.sync()

    def build(self) -> Ran:
        """Edit, and build and export with tfprov."""
        self._edit()
        # As on a machine whose engine is its own: the loopback of the tests' engine is in another network namespace.
        enter = self._bed.images.engine.network.enter
        return run([*enter, *self._cluster.command("image", "build")], self._cluster.env, self._directory)

    def save(self) -> Ran:
        """Save the image before the edit with the peer: it has as many layers, of the same sizes."""
        return run(["sh", "-c", f"exec docker save {self._image} >/dev/null"], self._bed.env)


def figures(bed: Bed, rounds: int, image: str) -> list[Figure]:
    """Measure `rounds` edits of an image on top of `image`, after one that exports all of it."""
    say(f"export after an edit of the last step, {rounds} rounds")
    edited = EditedImage(bed, image)
    times = in_turn({"tfprov": edited.build, _PEER: edited.save}, rounds)
    includes = (
        "a Dockerfile's last `RUN`, which writes 3 MB, is edited; `tfprov image build`: the engine's build of that step, "
        f"the export, the code's layer; peer: `{_PEER}`"
    )
    return [compared("export after an edit of the last step", times["tfprov"], times[_PEER], 0.5, includes)]
