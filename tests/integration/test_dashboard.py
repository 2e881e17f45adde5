"""The dashboard in a real browser: curves, changes while a run is recorded, a narrow screen, strangers, hostile logs."""

import http.client
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.support.command_line import CommandLine
from tests.support.run_history import description, progress, record_run, run_id, scripted, task
from tests.support.waiting import LONG, until
from tfprov.engine.events import LogLine
from tfprov.history.recorder import Recorder
from tfprov.history.run_dir import RunDir

if TYPE_CHECKING:
    from playwright.sync_api import Page

HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>\x1b[2J"
NARROW = {"width": 390, "height": 800}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def runs(state: Path) -> Path:
    return state / "tfprov" / "clusters" / "lab" / "runs"


@contextmanager
def dashboard(directory: Path, state: Path) -> Iterator[str]:
    """Yield the address of the verb's page; the verb is interrupted at the end, as by Ctrl-C."""
    line = CommandLine(directory, {"HOME": str(directory), "XDG_STATE_HOME": str(state), "PATH": "/usr/bin:/bin"})
    process = line.start("dashboard")
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[0]
    finally:
        line.end()


def points(page: "Page") -> list[int]:
    """Return how many points each drawn curve has."""
    paths = page.locator("svg.chart polyline").evaluate_all("paths => paths.map(path => path.getAttribute('points'))")
    return [len(path.split()) for path in paths]


@contextmanager
def recorded(runs: Path) -> Iterator[Recorder]:
    """Yield the recorder of a run that goes on."""
    recorder = Recorder(RunDir(runs / run_id(3)), "run")
    recorder.open(description)
    try:
        yield recorder
    finally:
        recorder.close(exit_code=0, error="")


def test_a_run_is_drawn_and_updated_while_it_is_recorded(page: "Page", tmp_path: Path, state: Path, runs: Path) -> None:
    record_run(runs, 1, scripted(), end={})
    record_run(runs, 2, scripted(30), end={}, learning_rate=0.1)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    with recorded(runs) as recorder, dashboard(tmp_path, state) as url:
        for step in range(0, 500, 50):
            recorder.handle(progress(step))
        recorder.handle(task("worker/0"))
        recorder.handle(LogLine("worker/0", f"first line {HOSTILE}"))
        page.goto(url)
        assert "token" not in page.url
        # What comes while a user clicks is shown after that: a link that is replaced meanwhile gets no click.
        page.get_by_role("link", name=run_id(3)).first.hover()
        page.mouse.down()
        until(lambda: page.evaluate("held.size"), "the page receives something")
        page.mouse.up()
        page.wait_for_url("**/run?*")
        until(lambda: page.locator("#connection").inner_text() == "live", "the page is connected")
        assert points(page) == [10, 10]
        assert "of 2,000" in page.locator("#summary").inner_text()

        for step in range(500, 1000, 50):
            recorder.handle(progress(step))
        recorder.handle(LogLine("worker/0", "second line"))
        until(lambda: points(page) == [20, 20], "the curves grow")
        until(lambda: "second line" in page.locator("#log").inner_text(), "the log grows")
        assert "<script>document.title='taken'</script>" in page.locator("#log").inner_text()
        assert page.title() == f"{run_id(3)} of lab - tfprov"

        page.get_by_label("Lines that contain").fill("SECOND")
        page.get_by_role("button", name="Show").click()
        page.wait_for_load_state()  # until then it has no style
        assert page.locator("#lines").inner_text().strip() == "second line"

        page.set_viewport_size(NARROW)  # type: ignore[arg-type]
        assert page.evaluate("document.documentElement.scrollWidth") == NARROW["width"]
        page.get_by_role("link", name="Clusters and runs").click()
        page.wait_for_load_state()
        assert page.evaluate("document.documentElement.scrollWidth") == NARROW["width"]

        page.set_viewport_size({"width": 1280, "height": 900})
        until(lambda: page.locator("#connection").inner_text() == "live", "the page is connected")
        for number in (1, 2):
            page.get_by_label(f"Compare {run_id(number)}").focus()
            page.keyboard.press("Space")
        recorder.handle(progress(1050))
        until(lambda: "1,050" in page.locator("#runs").inner_text(), "the table is replaced")
        assert page.evaluate("document.activeElement.ariaLabel") == f"Compare {run_id(2)}"
        page.keyboard.press("Enter")
        page.wait_for_url("**/compare?*")
        assert points(page) == [30, 40, 30, 40]
        assert "learning_rate" in page.locator("#figures").inner_text()
        labels = page.locator("svg.chart").evaluate_all(
            "charts => charts.map(chart => chart.getAttribute('aria-label'))"
        )
        assert re.match(rf"Loss: {run_id(2)} from 100 to .* at step 1,450; {run_id(1)} from ", labels[0])
        unnamed = page.locator("a, button, input, select, [role=region]").evaluate_all(
            "all => all.filter(e => !(e.ariaLabel || e.innerText || e.labels?.length || e.type === 'hidden')).length"
        )
        assert unnamed == 0
    assert errors == []


def ask(url: str, path: str = "/", method: str = "GET", **headers: str) -> tuple[int, str]:
    """Return status and body of a request to the page."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=LONG)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read(100_000).decode()
    finally:
        connection.close()


def test_a_stranger_learns_nothing(tmp_path: Path, state: Path, runs: Path) -> None:
    record_run(runs, 1, scripted(), end={})
    with dashboard(tmp_path, state) as url:
        token = urlsplit(url).query.partition("=")[2]
        allowed = {"Authorization": f"Bearer {token}"}
        for path in ("/", f"/run?run={run_id(1)}", "/stream?view=start", "/static/dashboard.js", "/?token=guess"):
            status, body = ask(url, path)
            assert status == 403
            assert run_id(1) not in body
        assert ask(url, Host="tfprov.example.com", **allowed)[0] == 403
        assert ask(url, method="POST", **allowed)[0] == 405
        assert ask(url, **allowed)[0] == 200
        bad = [
            "/run?run=gone",
            "/run?run=../../x",
            "/compare?run=a",
            "/compare",
            "/static/../app.py",
            "/x",
            "/run?run=%00",
        ]
        assert {path: ask(url, path, **allowed)[0] for path in bad} == dict.fromkeys(bad, 404)
        assert ask(url, "/?page=99999999999999", **allowed)[0] == 200
        answers: list[int] = []
        threads = [threading.Thread(target=lambda: answers.append(ask(url, **allowed)[0])) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [200] * 20


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_the_dashboard_ends_with_the_exit_code_of_its_signal(
    tmp_path: Path, state: Path, number: signal.Signals, code: int
) -> None:
    line = CommandLine(tmp_path, {"HOME": str(tmp_path), "XDG_STATE_HOME": str(state), "PATH": "/usr/bin:/bin"})
    process = line.start("dashboard")
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[0]
        with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=LONG)) as connection:
            connection.request("GET", "/")
            connection.getresponse().read()  # it serves
        process.send_signal(number)
        assert process.wait(LONG) == code
    finally:
        line.end()


def test_a_taken_port_is_one_line(tmp_path: Path, state: Path) -> None:
    with dashboard(tmp_path, state) as url:
        port = str(urlsplit(url).port)
        line = CommandLine(tmp_path, {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
        assert line("dashboard", "--port", port, code=2) == (
            f"error: port {port} of 127.0.0.1: Address already in use; choose another --port, or none\n"
        )
