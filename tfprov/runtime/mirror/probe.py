"""Tries a remote directory, as `tfprov check` has every host do that will use it.

    python -m tfprov.runtime.mirror.probe

The first line of the standard input is JSON, {"url": …, "cluster": …, "env": {…}, "reads": …}: secrets are in no argument
and no setting of a container. In a directory for checkpoints a file is written, read and removed; one with data is listed,
and its smallest file read. The last line of the standard output is {"newest": prefix or null}, {"files": count, "bytes":
count} or {"error": text, "fix": text}.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Mapping
from typing import Any

from tfprov.filesystems.generations import FOLDER
from tfprov.filesystems.remote_dir import ClientMissing, OpenRemote, RemoteDir, RemoteError, open_remote
from tfprov.runtime.fetch import FetchError
from tfprov.runtime.fetch_remote import data_files
from tfprov.runtime.mirror.restore import Owner, inspect

_LIMIT = 1024
_PATIENCE = 15.0
"""Seconds until a server that does not answer counts as lost: somebody waits."""


def _open(url: str, env: Mapping[str, str]) -> RemoteDir:
    return open_remote(url, env, _PATIENCE)


def probe(url: str, cluster: str, env: Mapping[str, str], opened: OpenRemote = _open) -> dict[str, Any]:
    """Return the newest checkpoint of a remote directory that can be used, or the error and its fix."""
    name, content = f"{FOLDER}/probe-{secrets.token_hex(6)}", secrets.token_hex(16).encode()
    try:
        remote = opened(url, env)
        remote.write(name, [content])
        try:
            if remote.read(name, _LIMIT) != content:
                return {"error": f"{url}: what was written is not what is read", "fix": "look at the server"}
        finally:
            remote.remove([name])
        if name in remote.files(FOLDER):
            return {"error": f"{url}: files cannot be removed", "fix": "allow it to these credentials"}
        newest = inspect(remote, Owner(cluster, "")).newest()
    except RemoteError as error:
        return _error(error)
    return {"newest": newest.prefix if newest else None}


def probe_data(url: str, env: Mapping[str, str], opened: OpenRemote = _open) -> dict[str, Any]:
    """Return how many files and bytes a directory with data has, or the error and its fix."""
    try:
        remote = opened(url, env)
        sizes = data_files(remote)
        smallest = min(sizes, key=lambda name: (sizes[name], name))
        next(remote.chunks(smallest), b"")
    except FetchError as error:
        return {"error": error.message, "fix": error.fix}
    except RemoteError as error:
        return _error(error)
    return {"files": len(sizes), "bytes": sum(sizes.values())}


def _error(error: RemoteError) -> dict[str, Any]:
    if isinstance(error, ClientMissing):
        return {"error": error.message, "fix": "", "missing": error.scheme.name}
    return {"error": error.message, "fix": error.fix or "look at the server, and at the way to it"}


def main() -> None:
    """Answer the request on the standard input."""
    request = json.loads(sys.stdin.readline())
    env = {**os.environ, **request["env"]}
    facts = probe_data(request["url"], env) if request["reads"] else probe(request["url"], request["cluster"], env)
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)  # without waiting for threads of clients
