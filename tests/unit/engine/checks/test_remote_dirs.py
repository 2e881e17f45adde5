"""`check` of a remote checkpoint directory: what the probe does there, and the lines about its answer."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.kubernetes_objects import roles_of
from tests.support.remote_dirs import URL, FaultyFileSystem, remote_dir, save
from tests.support.split_training import INVENTORY, SplitTraining
from tfprov.engine.checks.host_rules import Finding, Verdict
from tfprov.engine.checks.remote_dirs import judge, parse, refuse_without_client, request, run_here
from tfprov.errors import InvalidInput
from tfprov.filesystems.remote_dir import ClientMissing, RemoteDir
from tfprov.filesystems.urls import SCHEMES
from tfprov.model.state import Container, DockerOptions
from tfprov.runtime.mirror.mirror import Mirror
from tfprov.runtime.mirror.probe import probe
from tfprov.runtime.mirror.restore import Owner, take_over


class ReadOnly(FaultyFileSystem):
    """A server that hands out files and takes none."""

    def rm_file(self, path: str) -> None:
        raise PermissionError(f"DELETE {path}")


def tried(far: Path, fs: FaultyFileSystem | None = None, cluster: str = "split") -> Finding:
    answer = probe(URL, cluster, {}, lambda _url, _env: remote_dir(far, fs))
    return judge(chief(far), json.dumps(answer).encode())


def chief(directory: Path) -> Container:
    inventory = INVENTORY.replace("textbook.py]", f'textbook.py], checkpoints: {{dir: "{URL}"}}')
    container = SplitTraining(directory, inventory).context.container("worker/0")
    assert container is not None
    return container


def test_nothing_is_left_of_a_try(tmp_path: Path) -> None:
    finding = tried(tmp_path / "far")
    assert (finding.verdict, finding.what) == (Verdict.OK, f"{URL} can be written, read and cleaned, and is empty")
    assert not [path for path in (tmp_path / "far").rglob("*") if path.is_file()]


def test_the_newest_checkpoint_is_named(tmp_path: Path) -> None:
    far, local = tmp_path / "far", tmp_path / "local"
    manifest, _ = take_over(remote_dir(far), local, Owner("split", "run-1"), lambda _line: None)
    save(local, 100)
    Mirror(local, remote_dir(far), manifest, lambda _line: None).sync()
    assert tried(far).what.endswith("and holds model.ckpt-100")
    other = tried(far, cluster="digits")
    assert other.verdict is Verdict.FAILED
    assert other.what == f"{URL} holds checkpoints of cluster split, not digits"


@pytest.mark.parametrize(
    ("fs", "words"),
    [
        (FaultyFileSystem(cut_at=0), "cannot be written: the connection was cut"),
        (ReadOnly(), "cannot be removed: permission denied"),
    ],
)
def test_what_a_server_refuses_fails(tmp_path: Path, fs: FaultyFileSystem, words: str) -> None:
    finding = tried(tmp_path / "far", fs)
    assert finding.verdict is Verdict.FAILED
    assert words in finding.what


def test_a_missing_client_is_named_with_the_way_to_install_it(tmp_path: Path) -> None:
    def missing(_url: str, _env: Mapping[str, str]) -> RemoteDir:
        raise ClientMissing(SCHEMES["s3"])

    answer = json.dumps(probe(URL, "split", {}, missing)).encode()
    in_image = judge(replace(chief(tmp_path), docker=DockerOptions("x")), answer)
    assert in_image.what == "s3:// needs the Python package s3fs, which is not installed"
    assert "add `pip install s3fs` to its Dockerfile" in in_image.fix
    own = judge(replace(chief(tmp_path), python="/opt/venv/bin/python"), answer)
    assert own.fix == "run `/opt/venv/bin/python -m pip install s3fs`"


def test_a_start_is_refused_without_the_client(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')  # it sees no installed package
    python.chmod(0o755)
    inventory = INVENTORY.replace("textbook.py]", f'textbook.py], checkpoints: {{dir: "{URL}"}}')
    context = replace(SplitTraining(tmp_path, inventory).context, roles=tuple(roles_of(inventory)))
    wanted = [replace(container, python=str(python)) for container in context.wanted]
    with pytest.raises(
        InvalidInput, match=f"s3:// needs the Python package s3fs, which {python} has not; run"
    ) as raised:
        refuse_without_client(context, wanted)
    assert raised.value.problems[0].at.line == 2
    refuse_without_client(context, [replace(container, python=sys.executable) for container in context.wanted])


def test_a_file_of_the_users_directory_shadows_no_module_of_the_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    container = chief(tmp_path)
    (tmp_path / "json.py").write_text("raise SystemExit('the json.py of the user')")
    monkeypatch.chdir(tmp_path)
    answer = parse(run_here(sys.executable, container, request("hdfs://namenode.invalid/run", "split", container)))
    assert answer is not None
    assert "error" in answer


@pytest.mark.parametrize(
    ("output", "verdict"),
    [
        (b"/usr/bin/python: No module named tfprov", Verdict.NOTE),
        (b"Traceback\nMemoryError", Verdict.FAILED),
        (b"", Verdict.FAILED),
        (b'[1]\n{"newest": null}\n', Verdict.OK),
    ],
)
def test_any_output_gives_one_finding(tmp_path: Path, output: bytes, verdict: Verdict) -> None:
    assert judge(chief(tmp_path), output).verdict is verdict
