"""What another engine cannot do is one line with its fix, whole."""

import pytest

from tests.support.inventories import points_at_its_setting
from tests.support.kubernetes_objects import files_of
from tfprov.errors import InvalidInput, TfprovError

PLAIN = "all: {vars: {tfprov: {cluster: lab, command: [python, x.py], SETTINGS}}}\n"
TASKS = "ps: {hosts: {p: }}\nworker: {hosts: {w: }}\n"
IMAGE = "image: {name: 'r.example/t:1'}"
REMOTE = "checkpoints: {dir: 's3://b/x'}"
NFS = "mounts: [{nfs: {server: s, path: /a}, target: /x}]"
SECRET = "env: {A_TOKEN: secret-value}"
ELSEWHERE = "remove the group; run it elsewhere, on the gathered checkpoints or with `data_service: {address: …}`"
READABLE = "`env.A_TOKEN` is secret, and others can read the rendered files"

ERRORS = {
    ("slurm", "strategy: standalone"): (
        "`strategy: standalone` has servers that never end, and slurm waits for the end of a task; "
        "use `render kubernetes --set kind=Deployment`"
    ),
    ("kubernetes", "code: ."): "no `image`: kubernetes has to pull it; use `--set image=REGISTRY/NAME:TAG`",
    ("swarm", f"restart_on: [3], {IMAGE}"): (
        "`restart_on` works on tfprov's own hosts only: swarm has rules of its own for restarts; remove it"
    ),
    ("slurm", REMOTE): (
        "`checkpoints.dir` is a URL, and tasks without containers save to the nodes' shared file system; "
        "remove it, and use `--set checkpoints=/PATH`"
    ),
    ("spark-submit", REMOTE): (
        "`checkpoints.dir` is a URL, and tasks on Spark do not copy their checkpoints; "
        "remove it; `--set checkpoints=/PATH` is a directory that all executors share"
    ),
    ("spark-submit with a tensorboard", "port: 2222"): (
        f"Spark runs only tasks that train, and not the role `tensorboard`; {ELSEWHERE}"
    ),
    ("marathon", f"{NFS}, {IMAGE}"): (
        "`mounts[0].nfs` works on tfprov's own hosts and on Kubernetes, and not in marathon; "
        "mount it on every machine, and use `source`"
    ),
    ("kubernetes claim=a storage_class=b", IMAGE): (
        "`--set claim` and `--set storage_class` exclude each other; use one of them"
    ),
    ("kubernetes data_claim=a data_path=/b", f"data: {{path: /d}}, {IMAGE}"): (
        "`--set data_claim` and `--set data_path` exclude each other; use one of them"
    ),
    ("marathon", f"{SECRET}, {IMAGE}"): f"{READABLE}; put it into a file on the agents and list it in `mounts`",
    ("kubernetes", f"{SECRET}, {IMAGE}"): (
        f"{READABLE}; put it into a Secret under the key `A_TOKEN`, and use `--set env_secret=NAME`"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("options", "settings"), ERRORS)
def test_what_an_engine_cannot_do_is_one_line_with_its_fix(options: str, settings: str) -> None:
    target, *chosen = options.removesuffix(" with a tensorboard").split()
    text = PLAIN.replace("SETTINGS", settings) + TASKS
    if "standalone" in settings:
        text = text.replace("command: [python, x.py], ", f"{IMAGE}, ")
    if "tensorboard" in options:
        text += "tensorboard: {hosts: {w: }}\n"
    with pytest.raises(TfprovError) as caught:
        files_of(text, target, *chosen)
    assert str(caught.value).rpartition(": error: ")[2] == ERRORS[options, settings]
    problems = caught.value.problems if isinstance(caught.value, InvalidInput) else ()
    assert [problem for problem in problems if not points_at_its_setting(problem, text)] == []
