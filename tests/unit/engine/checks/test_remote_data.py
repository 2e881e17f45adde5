"""`check` of a remote directory with data: who tries it, what is tried there, and the findings."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.memory_cluster import make_context
from tests.support.remote_dirs import URL, FaultyFileSystem, remote_dir
from tfprov.engine.checks.host_rules import Finding, Verdict
from tfprov.engine.checks.remote_data import judge, of_host, readers
from tfprov.engine.checks.remote_dirs import client_fix
from tfprov.errors import one_line
from tfprov.filesystems.remote_dir import ClientMissing, RemoteDir
from tfprov.filesystems.urls import SCHEMES
from tfprov.runtime.mirror.probe import probe_data

INVENTORY = """
all: {vars: {tfprov: {cluster: far, command: [python, train.py], data: {path: "s3://bucket/train"}}}}
ps: {hosts: {p0: }}
worker: {hosts: {w0: , w1: }, vars: {tfprov: {tasks_per_host: 2}}}
evaluator: {hosts: {w0: }, vars: {tfprov: {data: {path: "s3://bucket/test"}}}}
"""


class Unreadable(FaultyFileSystem):
    """A server whose credentials allow listing alone."""

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: object) -> object:
        raise PermissionError(f"GET {path}")


def tried(far: Path, fs: FaultyFileSystem | None = None) -> Finding:
    answer = probe_data(URL, {}, lambda _url, _env: remote_dir(far, fs))
    return judge(URL, json.dumps(answer).encode(), str)


def test_every_host_that_reads_data_tries_it_once() -> None:
    context = make_context(INVENTORY)
    tries = {host: [(url, it.task.name) for url, it in readers(context, host)] for host in ("p0", "w0", "w1")}
    assert tries["p0"] == [], "a ps reads none"
    assert sorted(tries["w0"]) == [("s3://bucket/test", "evaluator/0"), ("s3://bucket/train", "worker/0")]
    assert tries["w1"] == [("s3://bucket/train", "worker/2")]
    assert list(readers(make_context(INVENTORY.replace("s3://bucket/", "/data/")), "w1")) == []


def test_files_that_can_be_read_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/part-0").write_bytes(b"123")
    (tmp_path / "part-1").write_bytes(b"4")
    finding = tried(tmp_path)
    assert (finding.verdict, finding.what) == (Verdict.OK, f"{URL} can be read: 2 files, 4 bytes")


def test_data_that_cannot_be_read_fails_with_a_fix(tmp_path: Path) -> None:
    empty = tried(tmp_path)
    assert (empty.verdict, empty.fix) == (Verdict.FAILED, "correct `data.path`: it names a directory")
    (tmp_path / "part-0").write_bytes(b"123")
    unreadable = tried(tmp_path, Unreadable())
    assert unreadable.what.startswith(f"{URL}: part-0 cannot be read: permission denied")
    assert unreadable.fix == "check the credentials in `env`, and the rights that they give"
    gone = tried(tmp_path, FaultyFileSystem(cut_at=0))
    assert gone.what == f"{URL}: cannot be listed: the connection was cut"
    assert gone.fix == "look at the server, and at the way to it"


def test_a_client_that_a_reader_lacks_is_named_with_the_way_to_install_it() -> None:
    def missing(_url: str, _env: Mapping[str, str]) -> RemoteDir:
        raise ClientMissing(SCHEMES["s3"])

    answer = json.dumps(probe_data(URL, {}, missing)).encode()
    finding = judge(URL, answer, client_fix)
    assert finding.what == "s3:// needs the Python package s3fs, which is not installed"
    assert finding.fix == one_line(client_fix("s3fs"))


@pytest.mark.parametrize(
    ("output", "verdict"),
    [
        (b"/usr/bin/python3: No module named tfprov", Verdict.NOTE),
        (b"Killed", Verdict.FAILED),
        (b"", Verdict.FAILED),
    ],
)
def test_a_probe_that_cannot_run_is_one_finding(output: bytes, verdict: Verdict) -> None:
    assert judge(URL, output, str).verdict is verdict


def test_a_process_tries_it_with_the_python_that_copies_it() -> None:
    context = make_context(INVENTORY)
    # A port that is not open: nothing listens on port 1 of this machine.
    env = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    context = replace(context, wanted=tuple(replace(it, env={**it.env, **env}) for it in context.wanted))
    (finding,) = of_host(context, "w1")
    assert finding.verdict is Verdict.FAILED
    assert finding.what.startswith("s3://bucket/train: cannot be listed: ")
    assert sys.executable not in finding.fix
