"""Ends when the training does: a rendered ps runs beside this, and its pod ends with it.

A TensorFlow server never ends by itself, and Kubernetes cannot say "this Job as long as that one". So the server is a
sidecar, and the Job's own container asks the API server whether the chief is done. Standard library only, in one file:
it is put into a ConfigMap, and any image with Python runs it.

    python until.py /apis/batch/v1/namespaces/{namespace}/jobs/linear-worker-0
"""

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
"""Where Kubernetes puts the token, the namespace, and the certificate of the API server."""
OVER = ("Complete", "Completed", "Succeeded", "Failed")
"""Conditions of a Job, a JobSet, a TFJob or a TrainJob after which nothing trains any more."""
POLL = 10.0
"""Seconds between two looks; up to half as many more, so that a hundred ps do not all ask at once."""
PATIENCE = 120.0
"""Seconds after which an object that is not there is taken for deleted, and not for one that is yet to come."""
_JITTER = random.Random()  # noqa: S311  nothing is kept secret with it
"""Apart from the generator that a program may have seeded for itself."""


def ending(answer: object) -> str | None:
    """Return the condition with which the object in `answer` has ended, or None while it has not."""
    status = answer.get("status") if isinstance(answer, dict) else None
    for condition in (status or {}).get("conditions") or ():
        if condition.get("type") in OVER and condition.get("status") == "True":
            return str(condition["type"])
    return None


def ask(url: str, account: Path) -> object:
    """Return the object at `url`; the token is read anew, because Kubernetes replaces it."""
    token = (account / "token").read_text().strip()
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310  see API
    trust = ssl.create_default_context(cafile=str(account / "ca.crt")) if url.startswith("https:") else None
    with urllib.request.urlopen(request, timeout=30, context=trust) as answer:  # noqa: S310
        return json.load(answer)


def wait(path: str, api: str = API, account: Path = ACCOUNT, poll: float = POLL, patience: float = PATIENCE) -> str:
    """Return how the object at `path` ended, once it has: a condition, or `deleted`.

    An API server that does not answer is asked again: a ps that ends too early ends the training of all.
    """
    url = api + path.replace("{namespace}", (account / "namespace").read_text().strip())
    missing_since, printed = None, ""
    while True:
        trouble = ""
        try:
            if how := ending(ask(url, account)):
                return how
            missing_since = None
        except urllib.error.HTTPError as error:
            trouble = f"{error.code} {error.reason}"
            missing_since = (missing_since or time.monotonic()) if error.code == 404 else None
        except (OSError, ValueError) as error:
            trouble, missing_since = str(error), None
        if missing_since is not None and time.monotonic() - missing_since >= patience:
            return "deleted"
        if trouble and trouble != printed:
            print(f"tfprov: asking for {url}: {trouble}", file=sys.stderr, flush=True)
        printed = trouble
        time.sleep(poll * _JITTER.uniform(1.0, 1.5))


if __name__ == "__main__":
    print(f"tfprov: the training has ended: {wait(sys.argv[1])}", flush=True)
