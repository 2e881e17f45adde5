"""Settings with which a build reaches a package index: certificates, index and proxy."""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path


@cache
def pip_settings() -> dict[str, str]:
    """Return pip's settings on this machine, whether from its files or from the environment: `{"cert": "/…"}`."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    # One line each, as `global.index-url='https://…'` or `:env:.cert='/…'`; the environment comes last, and wins.
    return dict(re.findall(r"^[^=]*\.([a-z-]+)='(.*)'$", printed, re.MULTILINE))


def ca_bundle() -> bytes | None:
    """Return the CA bundle of this machine if one is configured, as for an intercepting proxy."""
    stated = pip_settings().get("cert") or os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE")
    return Path(stated).read_bytes() if stated and Path(stated).is_file() else None


def pip_conf() -> bytes | None:
    """Return a pip.conf with the indexes this machine uses in place of the usual one, or None; directories stay behind."""
    lines = []
    for name in ("index-url", "extra-index-url", "trusted-host"):
        words = re.split(r"\s+|\\n", pip_settings().get(name, ""))
        kept = [word for word in words if word and not word.startswith("file:")]
        lines += [f"{name} = {' '.join(kept)}"] if kept else []
    return "\n".join(["[global]", *lines, ""]).encode() if lines else None


def proxies() -> dict[str, str]:
    """Return the proxy settings as build arguments; engines know these names and leave them out of the image."""
    names = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
    return {name: os.environ[name] for name in names if name in os.environ}
