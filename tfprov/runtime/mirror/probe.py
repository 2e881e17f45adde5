"""Tries a remote directory: writes, reads and removes a file there, as `tfprov check` has every host do that will.

    python -m tfprov.runtime.mirror.probe

The first line of the standard input is JSON, {"url": …, "cluster": …, "env": {…}}: secrets are in no argument and no
setting of a container. The last line of the standard output is {"newest": prefix or null} or {"error": text, "fix": text}.
"""

import json
import os
import secrets
import sys
from collections.abc import Mapping
from typing import Any

from tfprov.filesystems.generations import FOLDER
from tfprov.filesystems.remote_dir import ClientMissing, OpenRemote, RemoteDir, RemoteError, open_remote
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
    except ClientMissing as error:
        return {"error": error.message, "fix": "", "missing": error.scheme.name}
    except RemoteError as error:
        return {"error": error.message, "fix": error.fix}
    return {"newest": newest.prefix if newest else None}


def main() -> None:
    """Answer the request on the standard input."""
    request = json.loads(sys.stdin.readline())
    print(json.dumps(probe(request["url"], request["cluster"], {**os.environ, **request["env"]})), flush=True)


if __name__ == "__main__":
    main()
    os._exit(0)  # without waiting for threads of clients
