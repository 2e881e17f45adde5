"""Wait for the end of a training, beside a rendered ps, so that its pod ends with the training.

A TensorFlow server never ends by itself, and Kubernetes cannot tie the life of one Job to another. So the server is a
sidecar, and the Job's own container asks the API server whether the chief is done. Standard library only, in one file:
it is put into a ConfigMap and runs in any image with Python.

    python until.py /apis/batch/v1/namespaces/{namespace}/jobs/linear-worker-0
"""

from __future__ import annotations

import http.client
import json
import random
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

API = "https://kubernetes.default.svc"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Directory with the service account's token and namespace, and the API server's CA certificate."""
FINISHED_CONDITIONS = ("Complete", "Completed", "Succeeded", "Failed")
"""Conditions of a Job, a JobSet, a TFJob or a TrainJob that mean the end of the training."""
POLL = 10.0
"""Seconds between two requests; up to half as many more, so that a hundred ps do not all ask at once."""
PATIENCE = 120.0
"""Seconds after which a missing object counts as deleted, not as yet to be created."""
_JITTER = random.Random()  # noqa: S311  not for cryptography
"""Separate from the global generator, which a program may seed."""


def finished_condition(answer: object) -> str | None:
    """Return the condition that ended the object in `answer`, or None while it runs."""
    status = answer.get("status") if isinstance(answer, dict) else None
    for condition in (status or {}).get("conditions") or ():
        if condition.get("type") in FINISHED_CONDITIONS and condition.get("status") == "True":
            return str(condition["type"])
    return None


def get_object(url: str, account: Path) -> object:
    """Return the object at `url`; the token is read each time, because Kubernetes rotates it."""
    token = (account / "token").read_text().strip()
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310  see API
    trust = ssl.create_default_context(cafile=str(account / "ca.crt")) if url.startswith("https:") else None
    with urllib.request.urlopen(request, timeout=30, context=trust) as answer:  # noqa: S310
        return json.load(answer)


def wait(path: str, api: str = API, account: Path = ACCOUNT, poll: float = POLL, patience: float = PATIENCE) -> str:
    """Wait until the object at `path` ends and return its condition, or `deleted`.

    An API server that does not answer is asked again: a ps that ends too early ends the training of all.
    """
    url = api + path.replace("{namespace}", (account / "namespace").read_text().strip())
    missing_since, printed = None, ""
    while True:
        problem = ""
        try:
            if result := finished_condition(get_object(url, account)):
                return result
            missing_since = None
        except urllib.error.HTTPError as error:
            problem = f"{error.code} {error.reason}"
            missing_since = (missing_since or time.monotonic()) if error.code == 404 else None
        except (OSError, ValueError, http.client.HTTPException) as error:
            problem, missing_since = str(error) or type(error).__name__, None
        if missing_since is not None and time.monotonic() - missing_since >= patience:
            return "deleted"
        if problem and problem != printed:
            print(f"tfprov: asking for {url}: {problem}", file=sys.stderr, flush=True)
        printed = problem
        time.sleep(poll * _JITTER.uniform(1.0, 1.5))


if __name__ == "__main__":
    print(f"tfprov: the training has ended: {wait(sys.argv[1])}", flush=True)
