"""Data sets on an engine: a volume each, filled by a container that lives no longer than that.

Labels of a volume cannot change, so that one is whole is said by a second, empty volume, its seal. Both carry the same
random mark: the seal of a volume that somebody has removed says nothing about one that was made later.
"""

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import docker

from tfprov.errors import HostError
from tfprov.hosts.data_download import PROGRAM, Answers, Telling, order
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker.archive import directory_for_all
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.image_contents import Deliveries, is_delivered
from tfprov.hosts.docker.labels import CLUSTER, DATA, data_name
from tfprov.model.state import DATA_PREFIX, DataSet, dataset_key

_MARK, _SEALS = "tfprov.data-mark", "tfprov.data-whole"
_WHERE = "/fetched"
_MEMORY = 512 << 20
"""Bytes that a fetch may use; a tenth is enough."""
_PIDS = 64
_CONFLICT = 409
_PATIENCE = 60
"""Seconds for an engine to remove a container."""
_NO_PYTHON = "the image has no program python3"


class DataVolumes:
    """The data sets of `cluster` on an engine."""

    def __init__(self, engine: Engine, cluster: str, deliveries: Deliveries) -> None:
        self.engine, self.cluster, self._deliveries = engine, cluster, deliveries

    def whole(self) -> frozenset[str]:
        """Return those that are whole, as artifacts."""
        filled, sealed = {}, set()
        for volume in self._volumes():
            labels = volume["Labels"]
            if _SEALS in labels:
                sealed.add((labels[DATA], labels[_SEALS]))
            else:
                filled[labels[DATA]] = labels.get(_MARK)
        return frozenset(DATA_PREFIX + key for key, mark in filled.items() if (key, mark) in sealed)

    def _volumes(self) -> list[dict[str, Any]]:
        with self.engine.errors():
            found = self.engine.api.volumes(filters={"label": [f"{CLUSTER}={self.cluster}", DATA]})
        return [volume for volume in found.get("Volumes") or () if DATA in (volume.get("Labels") or {})]

    def fetch(self, data: DataSet, images: Sequence[str], telling: Telling) -> None:
        """See Runtime."""
        if data.artifact in self.whole():
            return
        image = self._image(images)
        with self.engine.errors():
            mark = self._volume(data.key)
        try:
            self._fill(data, image, telling)
        except HostError as error:
            if _NO_PYTHON not in error.reason:
                raise
            what = "the image has no python3, which is what fetches data"
            fix = "put Python into it, or the data on the host and give `data: {path: …}`"
            raise HostError(self.engine.host, what, fix) from None
        with self.engine.errors():
            self._seal(data.key, mark)

    def _image(self, names: Sequence[str]) -> str:
        for name in names:
            with self.engine.errors():
                listed = self.engine.api.images(name=name)
            if listed and is_delivered(self._deliveries, name, image_id := str(listed[0]["Id"])):
                return image_id
        raise HostError(self.engine.host, "there is no image to fetch data with", "deliver one: `tfprov image deliver`")

    def _volume(self, key: str) -> str:
        """Have the volume there, and return its mark; one with its name that is not ours is not touched."""
        api, name = self.engine.api, data_name(self.cluster, key)
        # To create one that is there changes nothing, and returns it as it is.
        api.create_volume(name, labels={CLUSTER: self.cluster, DATA: key, _MARK: secrets.token_hex(8)})
        labels = api.inspect_volume(name).get("Labels") or {}
        mark: str = labels.get(_MARK, "")
        if not mark or (labels.get(CLUSTER), labels.get(DATA)) != (self.cluster, key):
            fix = f"remove it: `docker volume rm {name}`"
            raise HostError(self.engine.host, f"the volume {name} is not ours", fix)
        return mark

    def _seal(self, key: str, mark: str) -> None:
        api, name = self.engine.api, data_name(self.cluster, key) + "-whole"
        labels = {CLUSTER: self.cluster, DATA: key, _SEALS: mark}
        if api.create_volume(name, labels=labels).get("Labels") != labels:  # that of a volume of before
            api.remove_volume(name)
            api.create_volume(name, labels=labels)

    def _fill(self, data: DataSet, image: str, telling: Telling) -> None:
        answers = Answers(self.engine.host, telling)
        with self.engine.errors(), self._container(data.key, image) as container:
            api = self.engine.api
            attached: Any = api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
            try:
                api.start(container)
                send = docker_exec.sender(attached)
                send(order(data, telling.pause))
                with telling.sending(send):
                    for descriptor, piece in docker_exec.frames(attached):
                        answers.take(descriptor, piece)
            finally:
                self.engine.hang_up(attached)  # it ends with that, also where this is cut off before it is removed
        answers.end()

    @contextmanager
    def _container(self, key: str, image: str) -> Iterator[str]:
        api, volume = self.engine.api, data_name(self.cluster, key)
        made = api.create_container(
            image=image,
            command=["python3", "-I", "-S", "-c", PROGRAM.read_text(), _WHERE],
            entrypoint=[],
            name=f"{volume}-fetch-{secrets.token_hex(4)}",
            labels={CLUSTER: self.cluster, DATA: key},
            stdin_open=True,
            host_config=api.create_host_config(
                mounts=[docker.types.Mount(_WHERE, volume, type="volume", no_copy=True)],
                auto_remove=True,
                log_config=docker.types.LogConfig(type="none"),
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                pids_limit=_PIDS,
                mem_limit=_MEMORY,
            ),
        )
        container: str = made["Id"]
        try:
            api.put_archive(container, "/", directory_for_all(_WHERE))
            yield container
        finally:
            self._remove_container(container)

    def tidy(self, keep: Collection[str]) -> int:
        """See Runtime. An engine removes no volume that a container has."""
        kept = {dataset_key(artifact) for artifact in keep}
        by_key: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for volume in self._volumes():
            by_key[volume["Labels"][DATA]].append(volume)
        gone = [volumes for key, volumes in by_key.items() if key not in kept]
        with self.engine.errors():
            return sum(map(self._remove, gone))

    def end_fetches(self) -> None:
        """Remove the containers of fetches that were cut off, where nobody fetches any more."""
        ours = {"label": [f"{CLUSTER}={self.cluster}", DATA]}
        with self.engine.errors():
            for one in self.engine.api.containers(all=True, filters=ours):
                self._remove_container(one["Id"])

    def _remove_container(self, container: str) -> None:
        """Return when it is gone: it removes itself once it has ended, which may be under way."""
        with suppress(docker.errors.NotFound):
            try:
                self.engine.api.remove_container(container, force=True)
            except docker.errors.APIError as error:
                if error.status_code != _CONFLICT:
                    raise
                self.engine.api.wait(container, timeout=_PATIENCE, condition="removed")

    def _remove(self, volumes: Sequence[dict[str, Any]]) -> bool:
        """Remove the volume of a data set, and then its seal; return whether it could be."""
        try:
            for volume in sorted(volumes, key=lambda volume: _SEALS in volume["Labels"]):
                self.engine.api.remove_volume(volume["Name"])
        except docker.errors.NotFound:
            return True
        except docker.errors.APIError as error:
            if error.status_code != _CONFLICT:  # in use
                raise
            return False
        return True
