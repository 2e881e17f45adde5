"""Data sets on an engine: one volume each, filled by a temporary container.

Labels of a volume cannot change, so a second, empty volume, the seal, marks a complete one. Both carry the same random
mark, so that the seal of a removed volume does not count for a later one.
"""

import re
import secrets
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tfprov.errors import HostError
from tfprov.hosts.data_download import PROGRAM, FetchOutput, FetchProgress, fetch_command, fetch_request
from tfprov.hosts.docker import exec as docker_exec
from tfprov.hosts.docker.archive import writable_directory
from tfprov.hosts.docker.engine import Engine
from tfprov.hosts.docker.engine_api.paths import containers_path, volumes_path
from tfprov.hosts.docker.engine_api.sdk import docker
from tfprov.hosts.docker.image_contents import Deliveries, is_delivered
from tfprov.hosts.docker.labels import CLUSTER, DATA, data_volume_name
from tfprov.model.state import DATA_PREFIX, DataSet, dataset_key

_MARK, _SEALS = "tfprov.data-mark", "tfprov.data-whole"
_FETCH_DIRECTORY = "/fetched"
_MEMORY = 512 << 20
"""Memory limit of a fetch in bytes; a tenth suffices."""
_PIDS = 64
_CONFLICT = 409
_NO_RUNTIME = re.compile("No module named .tfprov")
_NO_PYTHON = "the image has no program python3"
_OLD_PYTHON = re.compile("SyntaxError: |tfprov.runtime needs Python")
"""What a Python before 3.8 prints for the program, or for the import of the runtime."""


class DataVolumes:
    """The data sets of `cluster` on an engine."""

    def __init__(self, engine: Engine, cluster: str, deliveries: Deliveries) -> None:
        self.engine, self.cluster, self._deliveries = engine, cluster, deliveries

    @property
    def question(self) -> str:
        """The question for the volumes of all data sets."""
        return volumes_path(label=[f"{CLUSTER}={self.cluster}", DATA])

    def complete(self) -> frozenset[str]:
        """Return the artifacts of the complete data sets."""
        return self.complete_in(*self.engine.ask(self.question))

    def complete_in(self, answer: Mapping[str, Any]) -> frozenset[str]:
        """Return the artifacts of the data sets that are complete by the answer to `question`."""
        marks, sealed = {}, set()
        for volume in _volumes(answer):
            labels = volume["Labels"]
            if _SEALS in labels:
                sealed.add((labels[DATA], labels[_SEALS]))
            else:
                marks[labels[DATA]] = labels.get(_MARK)
        return frozenset(DATA_PREFIX + key for key, mark in marks.items() if (key, mark) in sealed)

    def fetch(self, data: DataSet, images: Sequence[str], progress: FetchProgress) -> None:
        """See Runtime."""
        if data.artifact in self.complete():
            return
        image = self._image(images)
        with self.engine.errors():
            mark = self._ensure_volume(data.key)
        try:
            self._fill(data, image, progress)
        except HostError as error:
            if (problem := image_problem(error.reason)) is None:
                raise
            raise HostError(self.engine.host, *problem) from None
        with self.engine.errors():
            self._seal(data.key, mark)

    def _image(self, names: Sequence[str]) -> str:
        for name in names:
            with self.engine.errors():
                listed = self.engine.api.images(name=name)
            if listed and is_delivered(self._deliveries, name, image_id := str(listed[0]["Id"])):
                return image_id
        raise HostError(self.engine.host, "there is no image to fetch data with", "deliver one: `tfprov image deliver`")

    def _ensure_volume(self, key: str) -> str:
        """Create the volume unless it exists, and return its mark. Raises HostError for a foreign volume."""
        api, name = self.engine.api, data_volume_name(self.cluster, key)
        # Creating an existing volume returns it unchanged.
        api.create_volume(name, labels={CLUSTER: self.cluster, DATA: key, _MARK: secrets.token_hex(8)})
        labels = api.inspect_volume(name).get("Labels") or {}
        mark: str = labels.get(_MARK, "")
        if not mark or (labels.get(CLUSTER), labels.get(DATA)) != (self.cluster, key):
            fix = f"remove it: `docker volume rm {name}`"
            raise HostError(self.engine.host, f"the volume {name} is not ours", fix)
        return mark

    def _seal(self, key: str, mark: str) -> None:
        api, name = self.engine.api, data_volume_name(self.cluster, key) + "-whole"
        labels = {CLUSTER: self.cluster, DATA: key, _SEALS: mark}
        if api.create_volume(name, labels=labels).get("Labels") != labels:  # the seal of an earlier volume
            api.remove_volume(name)
            api.create_volume(name, labels=labels)

    def _fill(self, data: DataSet, image: str, progress: FetchProgress) -> None:
        output = FetchOutput(self.engine.host, progress)
        with self.engine.errors(), self._fetch_container(data, image) as container:
            api = self.engine.api
            attached: Any = api.attach_socket(container, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
            try:
                api.start(container)
                send = docker_exec.get_sender(attached)
                send(fetch_request(data, progress.retry_pause))
                with progress.sending(send):
                    for descriptor, piece in docker_exec.read_attached(attached):
                        output.append(descriptor, piece)
            finally:
                self.engine.close_attached(attached)  # which ends the container, even if its removal is interrupted
        output.finish()

    @contextmanager
    def _fetch_container(self, data: DataSet, image: str) -> Iterator[str]:
        api, volume = self.engine.api, data_volume_name(self.cluster, data.key)
        created = api.create_container(
            image=image,
            command=fetch_command(data, ["python3", "-I", "-S", "-c"], PROGRAM.read_text(), _FETCH_DIRECTORY),
            entrypoint=[],
            name=f"{volume}-fetch-{secrets.token_hex(4)}",
            labels={CLUSTER: self.cluster, DATA: data.key},
            stdin_open=True,
            host_config=api.create_host_config(
                mounts=[docker.types.Mount(_FETCH_DIRECTORY, volume, type="volume", no_copy=True)],
                auto_remove=True,
                log_config=docker.types.LogConfig(type="none"),
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                pids_limit=_PIDS,
                mem_limit=_MEMORY,
            ),
        )
        container: str = created["Id"]
        try:
            api.put_archive(container, "/", writable_directory(_FETCH_DIRECTORY))
            yield container
        finally:
            docker_exec.remove_ended(self.engine, container)

    def remove_unused_data(self, keep: Collection[str]) -> int:
        """See Runtime. An engine does not remove a volume that a container uses."""
        return self._remove_unused(keep, *self.engine.ask(self.question))

    def _remove_unused(self, keep: Collection[str], answer: Mapping[str, Any]) -> int:
        kept = {dataset_key(artifact) for artifact in keep}
        by_key: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for volume in _volumes(answer):
            by_key[volume["Labels"][DATA]].append(volume)
        unused = [volumes for key, volumes in by_key.items() if key not in kept]
        with self.engine.errors():
            return sum(map(self._remove, unused))

    def clean(self, keep: Collection[str]) -> None:
        """Remove the containers of interrupted fetches, then the data but for `keep`. No fetch may be in progress."""
        fetching = containers_path(label=[f"{CLUSTER}={self.cluster}", DATA])
        listed, volumes = self.engine.ask(fetching, self.question)
        with self.engine.errors():
            for container in listed:
                docker_exec.remove_ended(self.engine, container["Id"])
        self._remove_unused(keep, volumes)

    def _remove(self, volumes: Sequence[dict[str, Any]]) -> bool:
        """Remove the volume of a data set, then its seal; return False if it is in use."""
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


def image_problem(reason: str) -> tuple[str, str] | None:
    """Return what an image lacks to fetch data, and the fix, from the reason for which a fetch failed there."""
    if _NO_RUNTIME.search(reason):
        problem = "the image has no tfprov.runtime, which copying remote data needs"
        return problem, "use `image: {build: …}` or `{archive: …}`, or put the data on the host"
    is_old = _OLD_PYTHON.search(reason) is not None
    if _NO_PYTHON not in reason and not is_old:
        return None
    problem = f"the image has no python3{' from 3.8 on' if is_old else ''}, which fetching data needs"
    return problem, "add Python to it, or put the data on the host and set `data: {path: …}`"


def _volumes(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [volume for volume in answer.get("Volumes") or () if DATA in (volume.get("Labels") or {})]
