"""TensorBoard of a real training, drawn by a real browser, here and on another host."""

import http.client
import http.server
import re
import socket
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.lab_cluster import LabCluster, open_lab_cluster, standin
from tests.support.local_cluster import LocalCluster
from tests.support.paths import ROOT
from tests.support.ssh_targets import target
from tests.support.sshd import sshd
from tests.support.tensorboard import (
    BOARD,
    assert_only_reads,
    board_address,
    close_web,
    page_text,
    page_url,
    read_losses,
)
from tests.support.testhost import Host
from tests.support.testhosts import Lab
from tests.support.waiting import LONG, until
from tfprov.hosts.docker.labels import container_name
from tfprov.hosts.ssh.host import SSHHost
from tfprov.hosts.ssh.http_gate import TokenGate

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCREENSHOT = ROOT / "build" / "screenshots" / "tensorboard-loss.png"
"""What the browser has drawn, for people; of the last time the test was run."""

POINTS = 8
"""Of the curve, at least."""

TRAINED_HERE = """
all:
  vars:
    tfprov:
      cluster: board
      code: PROGRAMS
      command: [python, linear.py]
      flags: {train_steps: 1000000, learning_rate: 0.001, save_every_steps: 200, pause: 0.01}
      env: {TF_CPP_MIN_LOG_LEVEL: "2"}
      port: PORT
  children:
    ps: {hosts: {localhost: }}
    worker: {hosts: {localhost: }}
    tensorboard: {hosts: {localhost: }}
"""


# --- in a browser ----------------------------------------------------------------------------------------------------


def curve(page: "Page") -> list[tuple[float, float]]:
    """Return the points of the line in the chart of the loss: pixels from its left and from its top."""
    lines = page.locator('scalar-card:has([title="loss"]) .series-view > svg path')
    if not lines.count():
        return []
    # The first is the loss as it was written, and the second, above it, a smoothed one.
    numbers = [float(number) for number in re.findall(r"-?[\d.]+(?:e-?\d+)?", lines.first.get_attribute("d") or "")]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def settled(page: "Page") -> list[tuple[float, float]]:
    """Return the curve once it is drawn: a chart that opens finds its scale in between."""

    def same() -> list[tuple[float, float]]:
        before = curve(page)
        page.wait_for_timeout(500)
        return before if before == curve(page) else []

    result: list[tuple[float, float]] = until(same, "the line is drawn")
    return result


def shares(numbers: list[float]) -> list[float]:
    """Return where each number lies on the way from the first to the last, which are 0 and 1."""
    return [(number - numbers[0]) / (numbers[-1] - numbers[0]) for number in numbers]


@pytest.mark.tensorflow
def test_a_browser_draws_the_loss_of_a_training_that_gets_better(local_cluster: LocalCluster, page: "Page") -> None:
    local_cluster.write(TRAINED_HERE)
    assert f"{BOARD} serves on 127.0.0.1:" in local_cluster("up")
    process = local_cluster.start("tensorboard")
    url = board_address(process)
    until(lambda: len(read_losses(url)) >= POINTS, "it has read the events")
    page.goto(f"{url}?tagFilter=loss#timeseries")
    try:
        drawn = settled(page)
    finally:
        page.screenshot(path=SCREENSHOT)
    lefts, tops = [left for left, _ in drawn], [top for _, top in drawn]
    assert len(drawn) >= POINTS
    assert lefts == sorted(set(lefts))
    assert tops[-1] > tops[0]  # the loss went down
    assert shares(tops) == pytest.approx(shares(read_losses(url)[: len(drawn)]), abs=0.01)
    close_web(process)


class Pages(http.server.SimpleHTTPRequestHandler):
    """Serves files and keeps no log."""

    def log_message(self, *_: object) -> None:
        pass


def test_a_browser_gets_through_a_tunnel_with_the_address_that_is_printed(page: "Page", tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text('<p>curves</p><script src="more.js"></script>')
    (tmp_path / "more.js").write_text('document.querySelector("p").append(" and more: " + location.search)')
    gate, pages = TokenGate(), partial(Pages, directory=str(tmp_path))
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), pages) as served,
        sshd(tmp_path / "sshd") as server,
        SSHHost(target(server)) as ssh,
        ssh.local_forward("127.0.0.1", served.server_port, gate=gate) as port,
    ):
        threading.Thread(target=served.serve_forever, args=(0.01,)).start()
        refused = page.goto(f"http://127.0.0.1:{port}/")
        assert (refused.status if refused else 0) == http.client.FORBIDDEN
        page.goto(f"http://127.0.0.1:{port}/{gate.query()}&run=1")
        assert page.locator("p").inner_text() == "curves and more: ?run=1"
        page.goto(f"http://127.0.0.1:{port}/index.html")
        assert page.locator("p").inner_text() == "curves and more:"
        served.shutdown()


# --- on another host -------------------------------------------------------------------------------------------------

PORT = 6006
STANDS_IN = {"command": ["httpd", "-f", "-p", str(PORT), "-h", "/checkpoints"], "code": None}
"""Shows the chief's files to whoever asks, and needs no code either; the tiny image has no TensorBoard."""


@pytest.fixture
def remote_cluster(lab: Lab, tmp_path: Path) -> Iterator[LabCluster]:
    yield from open_lab_cluster(lab, tmp_path)


def written(remote_cluster: LabCluster, settings: Mapping[str, Any], board: Mapping[str, Any]) -> Host:
    """Write the inventory: a ps, and on another host, which is returned, the chief with a tensorboard."""
    one, two, *_ = remote_cluster.lab.hosts
    roles = {"ps": [one], "worker": [two], "tensorboard": [two]}
    remote_cluster.write(roles, settings, role_settings={"tensorboard": board})
    return two


@pytest.fixture
def board_host(remote_cluster: LabCluster, tiny_archive: Path) -> Host:
    """The host of a tensorboard that is none, beside a training that is none."""
    board_host = written(remote_cluster, standin(tiny_archive), STANDS_IN)
    assert f"{BOARD} serves on 127.0.0.1:{PORT}" in remote_cluster("up")
    return board_host


def test_on_another_host_it_only_reads_and_only_the_connection_leads_to_it(
    remote_cluster: LabCluster, board_host: Host
) -> None:
    assert_only_reads(board_host)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((board_host.address, PORT), LONG).close()
    process = remote_cluster.start("tensorboard")
    url = board_address(process)
    text = until(lambda: page_text(page_url(url, "checkpoint")), "the chief's file is shown")
    assert text.startswith('model_checkpoint_path: "/checkpoints/model.ckpt-')
    assert page_text(f"{url.partition('?')[0]}checkpoint") is None, "nobody else of this machine sees it"
    close_web(process)
    assert remote_cluster.tasks()[BOARD]["state"] == "running"
    assert "nothing to do" in remote_cluster("up")


def test_an_obstacle_on_another_host_is_reported_in_one_line(remote_cluster: LabCluster, board_host: Host) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = remote_cluster("tensorboard", "--port", str(port), code=1)
    what = f"cannot listen on port {port} of this machine: Address already in use"
    assert message == f"error: {board_host.name}: {what}; choose another port\n"
    board_host.client.containers.get(container_name("lab", BOARD)).stop(timeout=0)
    assert re.fullmatch(
        rf"error: {BOARD}: does not run: .*; start it with `tfprov up`\n", remote_cluster("tensorboard", code=1)
    )
    board_host.stop()
    assert re.fullmatch(rf"error: {board_host.name}: .*\n", remote_cluster("tensorboard", code=4))
