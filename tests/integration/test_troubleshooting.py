"""docs/troubleshooting.md quotes tfprov's output: each block is compared with a run of the same mistake.

In a block `…` stands for what differs from machine to machine, within a line.
"""

import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.engine import Engine
from tests.support.local_cluster import LocalCluster, open_local_cluster
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
INVENTORY = """
all:
  vars:
    tfprov:
      cluster: linear
      code: program
      command: COMMAND
      port: PORT
      SETTINGS
  children:
    ps: {hosts: {localhost: }}
    worker: {hosts: {localhost: }}
"""
WAITS = "import sys, time\nif '--job_name=ps' in sys.argv: time.sleep(600)\n"
"""A ps that stays; what follows is the worker."""


@dataclass(frozen=True)
class Mistake:
    """A program, and an inventory that differs from `INVENTORY` in what `edit` does to its text."""

    program: str = "print('hello')"
    command: str = "[python, train.py]"
    settings: str = "ready: start"
    edit: Callable[[str], str] = lambda text: text
    code: int = 1
    takes_port: bool = False


ALONE = "ready: start\n      strategy: single"
"""One worker: of two tasks that fail alike, either may be the first."""
ONCE = "ready: start\n      restart: never"
MISTAKES = {
    "A module is missing": Mistake(f"{WAITS}import tensorfow as tf"),
    "TensorFlow is missing": Mistake(f"{WAITS}import tensorflow as tf", command="[python, -S, train.py]"),
    "The script is missing": Mistake(command="[python, trian.py]", settings=ALONE, code=2),
    "The command is missing": Mistake(command="[pyhton, train.py]", settings=ALONE, code=2),
    "The program has a syntax error": Mistake("def main(:\n    pass", settings=ALONE),
    "The program fails at its import": Mistake(f"{WAITS}STEPS = {{}}['steps']", settings=ONCE),
    "The program fails in the middle": Mistake(
        f"{WAITS}print('step 1', flush=True)\nlabels = {{}}['labels']", settings=ONCE
    ),
    "The program does not know the flags": Mistake(
        f"{WAITS}import argparse\nparser = argparse.ArgumentParser()\nparser.parse_args()"
    ),
    "The program hangs before it serves": Mistake(
        "import time\nprint('loading', flush=True)\ntime.sleep(600)", settings="start_timeout: 8"
    ),
    "The program ends at once": Mistake(settings=ALONE),
    "The program saves elsewhere": Mistake("open('model.keras', 'wb').write(b'weights')", settings=ALONE),
    "The disk is full": Mistake(f"{WAITS}open('/dev/full', 'w').write('x' * 10_000)", settings=ONCE),
    "A host's name has no address": Mistake(
        settings="image: {name: trainer}",
        edit=lambda text: text.replace("ps: {hosts: {localhost: }}", "ps: {hosts: {gpu-7.invalid: }}"),
        code=2,
    ),
    "The port is taken": Mistake(settings="", takes_port=True),
    "There is a ps and no worker": Mistake(edit=lambda text: re.sub("    worker: .*\n", "", text), code=2),
    "The strategy has no ps": Mistake(settings="strategy: multi_worker_mirrored", code=2),
}


def shown(page: str) -> dict[str, str]:
    """Return the first block of every section that has one, by the section's title."""
    observed = re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    return {title: block[1] for title, body in observed if (block := re.search(r"```text\n(.*?)```", body, re.DOTALL))}


def printed(cluster: LocalCluster, mistake: Mistake) -> str:
    """Return what `tfprov run` prints of the mistake from `error:` on."""
    (cluster.directory / "program").mkdir()
    (cluster.directory / "program" / "train.py").write_text(mistake.program)
    inventory = INVENTORY.replace("    ps: {hosts: {localhost: }}\n", "") if mistake.settings == ALONE else INVENTORY
    cluster.write(mistake.edit(inventory).replace("COMMAND", mistake.command).replace("SETTINGS", mistake.settings))
    done = cluster.run("run", fresh=True)
    assert done.returncode == mistake.code, done.stdout
    *_, error = re.finditer(r"^(?:\S+:\d+:\d+: )?error: ", done.stdout, re.MULTILINE)
    return done.stdout[error.start() :]


def without_marks(text: str) -> str:
    """Leave out the lines in which Python marks a part of the line above: each version of it marks others."""
    return re.sub(r"^.*\| [ ~^]+\n", "", text, flags=re.MULTILINE).strip()


def verdict(directory: Path, title: str, mistake: Mistake, block: str) -> str | None:
    """Return how the page differs from what is printed."""
    directory.mkdir()
    with ExitStack() as stack:
        cluster = stack.enter_context(contextmanager(open_local_cluster)(directory))
        if mistake.takes_port:
            stack.enter_context(socket.create_server(("127.0.0.1", cluster.port)))
        text = printed(cluster, mistake)
    return None if is_as_shown(text, block) else f"### {title}\n{text}"


def is_as_shown(text: str, block: str) -> bool:
    return bool(re.fullmatch(re.escape(without_marks(block)).replace("…", "[^\n]*"), without_marks(text)))


def test_the_troubleshooting_page_quotes_the_printed_lines(tmp_path: Path) -> None:
    blocks = shown(PAGE.read_text())
    assert set(MISTAKES) <= set(blocks)
    with ThreadPoolExecutor(3) as pool:
        jobs = [
            pool.submit(verdict, tmp_path / str(number), title, mistake, blocks[title])
            for number, (title, mistake) in enumerate(MISTAKES.items())
        ]
    assert [wrong for job in jobs if (wrong := job.result())] == []


def test_an_image_without_python_is_shown_as_it_is_printed(
    local_cluster: LocalCluster, tiny_archive: Path, private_engine: Engine
) -> None:
    local_cluster.env["DOCKER_HOST"] = private_engine.url
    text = printed(local_cluster, Mistake(settings=f"image: {{archive: {tiny_archive}}}", code=2))
    assert not private_engine.client.containers.list(all=True, filters={"label": "tfprov.cluster=linear"})
    for tag in {tag for image in private_engine.client.images.list("tfprov/linear") for tag in image.tags}:
        private_engine.client.images.remove(tag)
    assert is_as_shown(text, shown(PAGE.read_text())["The image has no Python"]), text
