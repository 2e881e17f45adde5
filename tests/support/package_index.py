"""Rewrite the lock files from the package index that pip is configured for. `python -m tests.support.package_index`.

No index is named here: it is the one that `pip install` would ask, with pip's certificates. It must speak the JSON form
of the simple API.
"""

import base64
import json
import os
import re
import ssl
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from packaging.utils import InvalidSdistFilename, canonicalize_name, parse_sdist_filename, parse_wheel_filename

from tests.support.lock import FOLDER, SOURCES, TWINS, Locked, LockError, fits, lock, pins, platforms, roots, write
from tests.support.network_settings import pip_settings
from tests.support.paths import ROOT
from tfprov import atomic_write

JSON = "application/vnd.pypi.simple.v1+json"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


class Index:
    """A package index; `url` is where its projects are listed."""

    def __init__(self, url: str, cert: str | None) -> None:
        parts = urllib.parse.urlsplit(url)
        self.url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
        self.headers = {"Accept": JSON}
        if parts.username:
            pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
            self.headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        self.trusted = ssl.create_default_context(cafile=cert)

    def with_hashes(self, line: Locked) -> Locked:
        """Return a line of a lock file with the SHA-256 of every wheel it is for, or of its source distribution."""
        hashes = source_hashes if line.name in SOURCES else release_hashes
        return replace(line, hashes=hashes(self._project(line.name), line))

    def download(self, project: str, filename: str) -> Iterator[bytes]:
        """Yield the content of one file of a project; its hash is for the caller to compare."""
        url = next(file["url"] for file in self._project(project)["files"] if file["filename"] == filename)
        headers = {name: value for name, value in self.headers.items() if name == "Authorization"}
        request = urllib.request.Request(urllib.parse.urljoin(f"{self.url}/{project}/", url), headers=headers)
        with urllib.request.urlopen(request, context=self.trusted, timeout=60) as answer:
            while piece := answer.read(1 << 20):
                yield piece

    def _project(self, name: str) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.url}/{name}/", headers=self.headers)
        with urllib.request.urlopen(request, context=self.trusted, timeout=60) as answer:
            if answer.headers.get_content_type() != JSON:
                raise LockError(
                    f"the index answers for {name} with {answer.headers.get_content_type()}, not with {JSON}"
                )
            project: dict[str, Any] = json.load(answer)
        return project


def release_hashes(project: dict[str, Any], line: Locked) -> tuple[str, ...]:
    """Return the SHA-256 of each wheel that fits a line of a lock file, out of an index's answer for its project."""
    wheels = [file for file in project["files"] if fits(file["filename"])]
    chosen = [file for file in wheels if str(parse_wheel_filename(file["filename"])[1]) == line.version]
    _refuse_withdrawn(chosen)
    names = [file["filename"] for file in chosen]
    for system, machine in platforms(line.marker):
        tags = "macosx" if system == "darwin" else "linux"
        if not any(re.search(rf"-any\.whl$|{tags}[\w.]*_({machine}|universal2)\b", name) for name in names):
            raise LockError(f"{line.name}=={line.version} has no wheel for {system} on {machine}; take another version")
    return tuple(file["hashes"]["sha256"] for file in chosen)


def source_hashes(project: dict[str, Any], line: Locked) -> tuple[str, ...]:
    """Return the SHA-256 of the source distribution of a release, out of an index's answer for its project."""
    chosen = [file for file in project["files"] if _source_version(file["filename"]) == line.version]
    _refuse_withdrawn(chosen)
    if not chosen:
        raise LockError(f"{line.name}=={line.version} has no source distribution; take another version")
    return tuple(file["hashes"]["sha256"] for file in chosen)


def _source_version(filename: str) -> str | None:
    try:
        return str(parse_sdist_filename(filename)[1])
    except InvalidSdistFilename:  # a wheel
        return None


def _refuse_withdrawn(files: Sequence[dict[str, Any]]) -> None:
    if yanked := [file["filename"] for file in files if file.get("yanked")]:
        raise LockError(f"{yanked[0]} was withdrawn by its authors; take another version in constraints.txt")


def configured_index() -> Index:
    """Return the index that pip asks on this machine."""
    url = pip_settings().get("index-url")
    if not url:  # pip's own default, which only its help names
        help_text = _run([*PIP, "install", "--help"])
        url = re.findall(r"\(default\s+(https://[^)\s]+)\)", help_text)[0]
    return Index(url, pip_settings().get("cert"))


def requirements(versions: dict[str, str]) -> dict[str, list[str]]:
    """Return what each package needs, by its metadata; pip fetches what it needs to know that."""
    exact = [f"{name}=={version}" for name, version in versions.items() if name not in {*TWINS, *SOURCES}]
    options = ["--dry-run", "--ignore-installed", "--no-deps", "--only-binary", ":all:", "--quiet", "--report", "-"]
    report = json.loads(_run([*PIP, "install", *options, *exact]))
    metadata = [each["metadata"] for each in report["install"]]
    needs: dict[str, list[str]] = {canonicalize_name(each["name"]): each.get("requires_dist", []) for each in metadata}
    sources = {name: list(texts) for name, texts in SOURCES.items()}
    return {**needs, **{name: needs[twin] for name, twin in TWINS.items()}, **sources}


def _run(command: Sequence[str]) -> str:
    env = {**os.environ, "COLUMNS": "400"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env)
    if done.returncode:
        raise LockError(f"pip {command[len(PIP)]} failed:\n{done.stderr}")
    return done.stdout


def main() -> None:
    """Write all lock files, after everything is known: none is changed where one cannot be made."""
    versions = pins((ROOT / "constraints.txt").read_text())
    locked = lock(roots((ROOT / "pyproject.toml").read_text()), requirements(versions), versions)
    index = configured_index()
    with ThreadPoolExecutor(8) as pool:
        texts = {file: write(file, list(pool.map(index.with_hashes, lines))) for file, lines in locked.items()}
    FOLDER.mkdir(exist_ok=True)
    for file, text in texts.items():
        atomic_write.replace(FOLDER / f"{file}.txt", text.encode())


if __name__ == "__main__":
    try:
        main()
    except LockError as error:
        sys.exit(f"error: {error}")
