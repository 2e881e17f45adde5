"""A whole training through the Python API: the cells of docs/notebook.md, in order."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.local_cluster import LocalCluster, open_local_cluster
from tests.support.paths import ROOT
from tests.support.warm import interpreter


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    yield from open_local_cluster(tmp_path)


@pytest.mark.tensorflow
def test_a_notebook_trains_gathers_and_takes_down(cluster: LocalCluster) -> None:
    cluster("init", ".", "--name", "notebook", "-y")
    # The examples of pages use the default port meanwhile.
    cluster("inventory", "set", "tfprov.port", str(cluster.port))
    cells = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "notebook.md").read_text(), re.DOTALL)
    script = cluster.directory / "notebook.py"
    script.write_text("\n".join([*cells, "print(max(losses), newest.path.parent.name)\n"]))
    done = interpreter().run([str(script)], env=cluster.env, cwd=cluster.directory, apart=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "notebook: 1 ps, 2 workers on 1 host"
    step, tensors = map(int, lines[-3].split())
    # StopAtStepHook reads the step beside a running train_op: each of the two workers may take two steps more.
    assert 300 <= step <= 304
    assert tensors == 3
    assert lines[-2] == "['ps/0', 'worker/0', 'worker/1']"
    last_loss_at, run = lines[-1].split()
    assert 0 < int(last_loss_at) <= step
    assert run == "notebook"
    assert cluster.processes() == []
