"""Every target renders a cluster with most settings, and one with few, to the files in tests/cases/render.

`python -m tests.unit.render.test_golden` rewrites them after an intended change; review the diff line by line.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kubernetes_objects import files_of
from tfprov.errors import Usage
from tfprov.render.options import parse_settings
from tfprov.render.render import options_of
from tfprov.render.target import TARGETS, Target, find_target
from tfprov.runtime import wait_for_job

CASES = Path(__file__).parents[2] / "cases" / "render"
LARGE = """
all:
  vars:
    tfprov:
      cluster: lab
      image: {name: "registry.example.com/train:1.0"}
      command: [python, train.py, "--who={{ task.name }}", "a b", "it's $HOME"]
      flags: {train_steps: 2000, rate: 0.10, verbose: , name: "{{ cluster_name | default('x') }}"}
      env: {A: "1", B: "two words", C: "$D"}
      checkpoints: {dir: /checkpoints}
      port: 2300
      memory: 1536m
      cpus: 1.5
      mounts: [{source: /scratch, target: /scratch, read_only: false}, {source: /srv/x, target: /srv/x}]
      data: {path: /srv/digits, to: /data}
      stop_grace: 45
      start_timeout: 90
      max_restarts: 3
ps: {hosts: {h1: {ansible_host: 10.0.0.1}, h2: {ansible_host: 10.0.0.2}}}
chief: {hosts: {h3: {ansible_host: 10.0.0.3}}}
worker:
  hosts: {h4: {ansible_host: 10.0.0.4}, h5: {ansible_host: 10.0.0.5}}
  vars: {tfprov: {tasks_per_host: 2, gpus: 1, env: {A: "3"}}}
evaluator: {hosts: {h3: }}
tensorboard: {hosts: {h3: }}
serving: {hosts: {h3: }}
notebook: {hosts: {h3: }}
"""
ALIKE = LARGE.replace(' "--who={{ task.name }}",', "").replace(', gpus: 1, env: {A: "3"}', "")
"""The same with one template for all workers, as TFJob requires."""
SMALL = """
all: {vars: {tfprov: {cluster: small, image: {name: "x:1"}, command: [python, x.py], wiring: tf_config}}}
worker: {hosts: {h1: {ansible_host: 10.0.0.1}, h2: {ansible_host: 10.0.0.2}}}
"""
FEED = """
all: {vars: {tfprov: {cluster: feed, image: {name: "x:1"}, command: [python, x.py], restart: never}}}
worker: {hosts: {h1: {ansible_host: 10.0.0.1}}}
dispatcher: {hosts: {h2: {ansible_host: 10.0.0.2}}}
data_worker: {hosts: {h2: , h3: {ansible_host: 10.0.0.3}}}
"""
CHOSEN = """
all:
  vars:
    tfprov:
      cluster: chosen
      image: {name: "x:1"}
      command: [python, x.py]
      env: {API_TOKEN: secret-value, A: b}
      data: {path: /data, to: /data}
      mounts: [{nfs: {server: nfs.example.com, path: /export}, target: /nfs}]
      wiring: tf_config
chief: {hosts: {h1: }}
worker: {hosts: {h2: }, vars: {tfprov: {gpus: 2}}}
tensorboard: {hosts: {h1: }}
"""
"""For the options of targets on Kubernetes."""
CHOICES = (
    *("data_claim=sets", "credential_secret=gcs", "credential_key=gcs.json", "env_secret=keys", "pull_secrets=one,two"),
    *("node_selector=pool=gpu,zone=a", "tolerations=dedicated=lab:NoSchedule,spot", "gpu_resource=amd.com/gpu"),
    *("user=1001", "priority_class=high", "namespace=lab", "storage=5Gi", "storage_class=fast", "code=image"),
)
KUBE = ("claim=c", "data_path=/nodes/digits", "access=ReadWriteMany", "code=image")
RENDERED = {
    "large-compose": (LARGE, "compose", ()),
    "large-swarm": (LARGE, "swarm", ()),
    "large-marathon": (LARGE, "marathon", ("checkpoints=/shared",)),
    "large-slurm": (LARGE, "slurm", ()),
    "large-kubernetes": (LARGE, "kubernetes", KUBE),
    "large-jobset": (LARGE, "jobset", KUBE),
    "large-tfjob": (ALIKE, "kubeflow-tfjob", KUBE),
    "small-compose": (SMALL, "compose", ()),
    "small-swarm": (SMALL, "swarm", ()),
    "small-marathon": (SMALL, "marathon", ()),
    "small-spark": (SMALL, "spark-submit", ("code=image", "trusted_network=true")),
    "small-slurm": (SMALL, "slurm", ("container=none",)),
    "small-kubernetes": (SMALL, "kubernetes", ("storage=20Gi", "storage_class=fast", "code=image")),
    "small-jobset": (SMALL, "jobset", ("storage=none", "code=image")),
    "small-tfjob": (SMALL, "kubeflow-tfjob", ("storage=none", "code=image")),
    "small-trainer": (SMALL, "kubeflow-trainer", ("code=image",)),
    "feed-sets": (FEED, "kubernetes", ("kind=StatefulSet", "storage=none", "code=image")),
    "feed-compose": (FEED, "compose", ()),
    "chosen-kubernetes": (CHOSEN, "kubernetes", (*CHOICES, "ttl=60")),
    "chosen-jobset": (CHOSEN, "jobset", (*CHOICES, "ttl=60", "restarts=5", "await_evaluator=true")),
    "chosen-tfjob": (CHOSEN, "kubeflow-tfjob", (*CHOICES, "clean=All", "success=AllWorkers", "deadline=60")),
    "feed-kubernetes": (FEED, "kubernetes", ("storage=none", "code=image")),
}
OPTIONS = "options"
PROGRAM = "(here stands tfprov/runtime/wait_for_job.py)"
"""Stands for the watching program, which has its own file and tests."""


def rendered(inventory: str, target: str, options: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the names of the files and their texts."""
    program = Path(wait_for_job.__file__ or "").read_text()
    for name, text in files_of(inventory, target, *options).items():
        indented = next((" " * count for count in range(12) if _indented(program, " " * count) in text), None)
        yield name, text if indented is None else text.replace(_indented(program, indented), f"{indented}{PROGRAM}\n")


def _indented(program: str, pad: str) -> str:
    return "".join(f"{pad}{line}".rstrip() + "\n" for line in program.splitlines())


def shown(inventory: str, target: str, options: tuple[str, ...]) -> str:
    text = "".join(f"=== {name}\n{text}" for name, text in rendered(inventory, target, options))
    return text.replace(str(Path.cwd()), "DIRECTORY")  # the base of relative paths


def options(target: Target) -> Iterator[str]:
    """Yield a target's title, and its options with their defaults and the error for an invalid value."""
    yield target.title
    all_options_of_target = options_of(target)
    for name, option in all_options_of_target.items():
        yield f"{name} = {option.default!r}: {option.help}"
        try:
            parse_settings(target.name, all_options_of_target, [f"{name}= \n "])
        except Usage as error:
            yield f"  {error}"


def all_options() -> str:
    lines = (line for name in sorted(TARGETS) for line in (f"=== {name}", *options(find_target(name))))
    return "".join(f"{line}\n" for line in lines)


def test_the_options_of_all_targets_are_as_expected() -> None:
    assert all_options() == (CASES / f"{OPTIONS}.txt").read_text()


@pytest.mark.parametrize("name", RENDERED)
def test_a_target_renders_the_expected_files(name: str) -> None:
    assert shown(*RENDERED[name]) == (CASES / f"{name}.txt").read_text()


def test_every_case_file_is_tested() -> None:
    assert {path.stem for path in CASES.iterdir()} == {OPTIONS, *RENDERED}


def test_the_watching_program_is_in_a_config_map() -> None:
    [text] = files_of(LARGE, "kubernetes", *KUBE).values()
    assert _indented(Path(wait_for_job.__file__ or "").read_text(), "    ") in text
    assert PROGRAM in shown(LARGE, "kubernetes", KUBE)


if __name__ == "__main__":
    CASES.mkdir(exist_ok=True)
    for case, arguments in RENDERED.items():
        (CASES / f"{case}.txt").write_text(shown(*arguments))
    (CASES / f"{OPTIONS}.txt").write_text(all_options())
