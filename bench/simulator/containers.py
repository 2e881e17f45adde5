"""What one simulated engine has, and how it changes: containers, images and volumes, with nothing behind them.

A container is an entry of a list that runs until it is stopped; a pull and a file that is put have no content.
"""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

Reply = tuple[int, Any]
Query = dict[str, str]
GONE: Reply = (404, {"message": "there is no such thing"})

_ENDED, _CREATED = "0001-01-01T00:00:00Z", "2026-01-01T00:00:00Z"
_IDS = count(1)


@dataclass
class Host:
    """What the engine at `address` has, by name or id. `followers` are called with each change of a container."""

    address: str
    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    images: dict[str, list[str]] = field(default_factory=dict)
    volumes: dict[str, dict[str, Any]] = field(default_factory=dict)
    listeners: dict[str, list[asyncio.Server]] = field(default_factory=dict)
    executions: dict[str, dict[str, Any]] = field(default_factory=dict)
    followers: set[Callable[[str, dict[str, Any]], None]] = field(default_factory=set)

    def container(self, name: str) -> dict[str, Any] | None:
        """Return the container with this id or name."""
        names = (it for it in self.containers.values() if it["Name"] == f"/{name}")
        return self.containers.get(name) or next(names, None)

    def report(self, action: str, facts: dict[str, Any]) -> None:
        """Tell the followers of events."""
        for follower in tuple(self.followers):
            follower(action, facts)

    def end(self, facts: dict[str, Any]) -> None:
        """Close the ports of a container."""
        for listener in self.listeners.pop(facts["Id"], ()):
            listener.close()


def filtered(query: Query, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items that have all labels of the filter, and the name and state of the filter."""
    filters = json.loads(query.get("filters", "{}"))
    labels, names, states = (filters.get(key) or [] for key in ("label", "name", "status"))

    def passes(item: dict[str, Any]) -> bool:
        has_name = not names or any(re.search(name, item.get("Name") or item["Names"][0]) for name in names)
        return has_name and has_labels(item, labels) and (not states or item.get("State") in states)

    return [item for item in items if passes(item)]


def has_labels(item: dict[str, Any], labels: list[str]) -> bool:
    """Whether an item has all labels, each a key, or a key and its value."""
    own = item.get("Labels") or {}
    return all(
        own.get(key) == value if sign else key in own for key, sign, value in (label.partition("=") for label in labels)
    )


def listed(facts: dict[str, Any]) -> dict[str, Any]:
    """Return a container as in a list."""
    ports = [
        {
            "IP": one["HostIp"],
            "PublicPort": int(one["HostPort"]),
            "PrivatePort": int(port.partition("/")[0]),
            "Type": "tcp",
        }
        for port, places in (facts["HostConfig"].get("PortBindings") or {}).items()
        for one in places or ()
    ]
    return {
        "Id": facts["Id"], "Names": [facts["Name"]], "Labels": facts["Config"]["Labels"], "ImageID": facts["Image"],
        "State": facts["State"]["Status"], "Ports": ports if facts["State"]["Running"] else [],
    }  # fmt: skip


def create(host: Host, query: Query, body: dict[str, Any]) -> Reply:
    """Create a container."""
    name = query.get("name") or f"c{next(_IDS)}"
    if host.container(name):
        return 409, {"message": f'Conflict. The container name "/{name}" is already in use by container "x"'}
    key = f"{next(_IDS):064x}"
    image = next((it for it, tags in host.images.items() if body.get("Image") in (it, *tags)), str(body.get("Image")))
    config: dict[str, Any] = {
        "Labels": body.get("Labels") or {}, "Tty": False, "WorkingDir": body.get("WorkingDir") or "",
        "Env": ["PATH=/bin"], "Image": body.get("Image"), "Entrypoint": body.get("Entrypoint"), "Cmd": body.get("Cmd"),
        "User": "",
    }  # fmt: skip
    state = {
        "Status": "created", "Running": False, "ExitCode": 0, "Error": "", "StartedAt": _ENDED, "FinishedAt": _ENDED,
    }  # fmt: skip
    host.containers[key] = {
        "Id": key, "Name": f"/{name}", "Image": image, "Created": _CREATED, "RestartCount": 0, "State": state,
        "Config": config, "HostConfig": body.get("HostConfig") or {}, "Mounts": [],
    }  # fmt: skip
    host.report("create", host.containers[key])
    return 201, {"Id": key, "Warnings": []}


def change(host: Host, facts: dict[str, Any], action: str, query: Query) -> Reply:
    """Start, stop, kill or rename a container."""
    state = facts["State"]
    if action == "start":
        state |= {"Status": "running", "Running": True, "StartedAt": _CREATED}
    elif action in ("stop", "kill"):
        state |= {"Status": "exited", "Running": False, "ExitCode": 143, "FinishedAt": _CREATED}
        host.end(facts)
    elif action == "rename":
        facts["Name"] = f"/{query['name']}"
    else:
        return GONE
    host.report({"stop": "die", "kill": "die"}.get(action, action), facts)
    return 204, None


def remove(host: Host, facts: dict[str, Any]) -> Reply:
    """Remove a container."""
    del host.containers[facts["Id"]]
    host.end(facts)
    host.report("destroy", facts)
    return 204, None


def images(host: Host, query: Query) -> Reply:
    """List images by the beginning of their names."""
    wanted = json.loads(query.get("filters", "{}")).get("reference") or [""]
    named = {key: [tag for tag in tags if tag.startswith(wanted[0])] for key, tags in host.images.items()}
    return 200, [{"Id": key, "RepoTags": tags, "RepoDigests": []} for key, tags in named.items() if tags]


def image(host: Host, name: str) -> Reply:
    """Return an image by its name or id."""
    config = {"Env": ["PATH=/bin"], "Entrypoint": None, "WorkingDir": "", "User": "", "Labels": None}
    for key, tags in host.images.items():
        if name == key or name in tags:
            return 200, {
                "Id": key, "RepoTags": tags, "RepoDigests": [], "Os": "linux", "Architecture": "amd64", "Size": 1,
                "RootFS": {"Type": "layers", "Layers": []}, "Config": config,
            }  # fmt: skip
    return 404, {"message": f"No such image: {name}"}


def tag(host: Host, name: str, query: Query) -> Reply:
    """Give an image another name."""
    code, facts = image(host, name)
    if code == 200 and (new := f"{query['repo']}:{query.get('tag', 'latest')}") not in host.images[facts["Id"]]:
        host.images[facts["Id"]].append(new)
    return (201, None) if code == 200 else GONE


def pull(host: Host, query: Query) -> Reply:
    """Have an image."""
    name = f"{query['fromImage']}:{query.get('tag') or 'latest'}"
    host.images.setdefault(f"sha256:{abs(hash(name)):064x}", []).append(name)
    return 200, {"status": "Pull complete"}


def new_volume(host: Host, body: dict[str, Any]) -> Reply:
    """Create a volume."""
    made = {"Name": body["Name"], "Driver": "local", "Labels": body.get("Labels") or {}, "Scope": "local"}
    return 201, host.volumes.setdefault(body["Name"], made)
