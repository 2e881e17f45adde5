"""What a task has written into its container's own layer, which goes with the container."""

import posixpath
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tfprov.errors import HostError
from tfprov.hosts import docker_files
from tfprov.hosts.base import Tree, Written
from tfprov.hosts.engine_api import Engine
from tfprov.model.model_files import model_files

_DELETED = 2
"""The engine's word for a file of the image that is not in the container any more."""


class DockerOutside:
    """See Outside; `find` returns what the engine knows of a task's container, None where there is none."""

    def __init__(self, engine: Engine, find: Callable[[str], dict[str, Any] | None]) -> None:
        self._engine, self._find = engine, find

    def models(self, task: str) -> Mapping[str, Written]:
        """See Outside. Volumes and mounted directories are no part of a container: they stay."""
        facts = self._find(task)
        if facts is None:
            return {}
        with self._engine.errors():
            changes = self._engine.api.diff(facts["Id"]) or ()
        made = int(datetime.fromisoformat(facts["Created"]).timestamp())
        written = {}
        for path in model_files(change["Path"] for change in changes if change["Kind"] != _DELETED):
            file = docker_files.stat(self._engine, facts["Id"], path)
            if file is not None and file.modified >= made:  # what was put there before the start is older
                written[path] = Written(file.size, file.modified, lasting=False)
        return written

    def tree(self, task: str, path: str) -> Tree:
        """See Outside."""
        host, facts = self._engine.host, self._find(task)
        if facts is None:
            raise HostError(host, f"{task} is not there", "start it with `tfprov up`")
        top = posixpath.normpath(posixpath.join(facts["Config"].get("WorkingDir") or "/", path))
        if top.strip("/") == "":
            raise HostError(host, f"{path} is the whole file system of {task}", "name a directory in it")
        return Tree(top, docker_files.tree(self._engine, facts["Id"], top))
