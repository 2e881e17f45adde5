"""The TensorBoard of a cluster: its address, its data, and the rights of its container."""

import contextlib
import json
import re
import signal
import urllib.request

from tests.support.local_cluster import read_to_end
from tests.support.testhost import Host
from tests.support.waiting import LONG
from tests.support.warm import AnyProcess
from tfprov.hosts.docker.labels import container_name

BOARD = "tensorboard/0"


def board_address(process: AnyProcess) -> str:
    """Return the address that `tfprov tensorboard` prints on its first line."""
    return web_address(process, BOARD, "the TensorBoard")


def web_address(process: AnyProcess, task: str, what: str) -> str:
    """Return the address that a verb such as `tfprov serving` prints for `task` on its first line."""
    assert process.stdout is not None
    line = process.stdout.readline()
    match = re.search(rf"^{task} on \S+: (http://\S+/\S*) \(Ctrl-C ends this, not {what}\)$", line)
    assert match is not None, line + process.stdout.read()
    return match[1]


def close_web(process: AnyProcess) -> None:
    """Press Ctrl-C; assert that the command ends with 0 and prints nothing more."""
    process.send_signal(signal.SIGINT)
    rest = read_to_end(process)
    assert (process.returncode, rest) == (0, "")


def page_url(url: str, page: str) -> str:
    """Return the address of another page of the TensorBoard at `url`, with the token that is in that."""
    address, _, token = url.partition("?")
    return f"{address}{page}" + (f"{'&' if '?' in page else '?'}{token}" if token else "")


def page_text(url: str) -> str | None:
    """Return the text of a page, as a browser that keeps cookies gets it; None while nothing answers there."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with contextlib.suppress(OSError), browser.open(url, timeout=LONG) as answer:
        text: str = answer.read().decode()
        return text
    return None


def read_losses(url: str) -> list[float]:
    """Return the losses TensorBoard has read so far."""
    answer = page_text(page_url(url, "data/plugin/scalars/scalars?run=.&tag=loss"))
    return [value for _, _, value in json.loads(answer)] if answer else []


def _inside(host: Host, cluster: str, task: str, *argv: str) -> tuple[int, str]:
    """Run a program in a task's container, as its user; return its exit code and output."""
    return host.run_in(container_name(cluster, task), *argv)


def assert_only_reads(host: Host, cluster: str = "lab") -> None:
    """On `host` the tensorboard of `cluster` has the directory of its chief, worker/0, and cannot write there."""
    code, output = _inside(host, cluster, BOARD, "touch", "/checkpoints/mine")
    assert code == 1, output
    assert "Read-only file system" in output
    assert _inside(host, cluster, "worker/0", "touch", "/checkpoints/mine") == (0, "")
    assert _inside(host, cluster, BOARD, "ls", "/checkpoints/mine")[0] == 0
