"""Tasks with a web page: their address from this machine, when they answer, and the error if they do not."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.clock import ManualClock
from tests.support.memory_cluster import make_context, run_up
from tests.support.reporters import RecordingReporter
from tests.support.webserver import WebServer, serving
from tfprov.engine.context import Context
from tfprov.engine.monitoring.web_tunnel import open_web_server, open_web_task, stay
from tfprov.errors import TaskFailed, Unreachable, Usage
from tfprov.hosts.machine import SSHMachine
from tfprov.hosts.memory import MemoryRuntime

INVENTORY = """
all: {{vars: {{tfprov: {{cluster: lab, command: [python, train.py], restart: never}}}}}}
worker: {{hosts: {{h1: {{ansible_host: 127.0.0.1}}}}}}
"""
BOARD = "tensorboard: {{hosts: {{h1: }}, vars: {{tfprov: {{port: {port}{bind}}}}}}}\n"
IN_DOCKER = "restart: never, image: {{name: 'train:1.0'}}"
EVERYWHERE = ", bind: 0.0.0.0, allow_insecure_network: true"


@pytest.fixture
def page() -> Iterator[WebServer]:
    with serving() as server:
        server.files["/"] = b"hello"
        yield server


class Lab:
    """A worker, and one more role on h1 whose task serves at the port of `page`."""

    def __init__(self, page: WebServer, more: str = BOARD, bind: str = "") -> None:
        self.hosts: dict[str, MemoryRuntime] = {}
        self.clock, self.report = ManualClock(), RecordingReporter()
        self.port = page.httpd.server_port
        text = (INVENTORY.replace("restart: never", IN_DOCKER) if bind else INVENTORY) + more
        made = make_context(text.format(port=self.port, bind=bind), (), self.hosts)
        self.context: Context = replace(made, clock=self.clock, report=self.report)
        self.host = self.hosts["h1"]
        run_up(self.context)[1].check()

    def fails(self, job: str = "tensorboard", port: int | None = None) -> str:
        with pytest.raises((TaskFailed, Usage)) as caught, open_web_task(self.context, job, port):
            pass
        return str(caught.value)


@pytest.mark.parametrize("bind", ["", EVERYWHERE])
def test_a_task_on_this_machine_is_opened_at_its_own_address(page: WebServer, bind: str) -> None:
    lab = Lab(page, bind=bind)
    with open_web_task(lab.context, "tensorboard") as opened:
        assert opened.url == f"http://127.0.0.1:{lab.port}/"
    with open_web_server(lab.context, "tensorboard", lab.port) as server:
        assert (server.task, server.host, server.url) == ("tensorboard/0", "h1", f"http://127.0.0.1:{lab.port}/")
    assert lab.clock.time == 0, "it answers at once"


def test_another_port_on_this_machine_is_refused(page: WebServer) -> None:
    lab = Lab(page)
    assert lab.fails(port=1) == (
        f"tensorboard/0 is on this machine and serves at http://127.0.0.1:{lab.port}/; "
        "open that, or set `port` of the role in the inventory"
    )


def test_a_role_that_is_not_there_is_named_with_the_fix(page: WebServer) -> None:
    assert Lab(page).fails("notebook") == (
        "cluster lab has no notebook; add the group `notebook` with the chief's host to the inventory, and run `tfprov up`"
    )


def test_a_task_that_does_not_run_is_reported_with_its_log(page: WebServer) -> None:
    lab = Lab(page)
    lab.host.prints("tensorboard/0", "no such directory")
    lab.host.exits("tensorboard/0", 3)
    with (
        pytest.raises(TaskFailed, match=r"tensorboard/0: does not run: .*; start it with `tfprov up`") as e,
        open_web_task(lab.context, "tensorboard"),
    ):
        pass
    assert tuple(e.value.log) == ("no such directory",)
    lab.host.exits("tensorboard/0", 0)
    with pytest.raises(TaskFailed) as e, open_web_task(lab.context, "tensorboard"):
        pass
    assert not e.value.log, "the log of one that finished tells nothing"
    lab.host.places.clear()
    assert lab.fails() == "tensorboard/0: is not there on h1; start it with `tfprov up`"


def test_a_task_that_never_answers_exceeds_its_start_timeout(page: WebServer) -> None:
    lab = Lab(page)
    page.answers["/"] = 500
    lab.host.prints("tensorboard/0", "waiting")
    container = next(one for one in lab.context.wanted if one.task.job == "tensorboard")
    with pytest.raises(TaskFailed) as caught, open_web_task(lab.context, "tensorboard"):
        pass
    limit = container.start_timeout
    assert str(caught.value).splitlines() == [
        f"tensorboard/0: does not answer at 127.0.0.1:{lab.port} after {limit} s", "  tensorboard/0 | waiting"
    ]  # fmt: skip
    assert tuple(caught.value.log) == ("waiting",)
    assert limit < lab.clock.time <= limit + 1


def test_a_task_that_is_slow_to_start_is_waited_for(page: WebServer) -> None:
    lab = Lab(page)
    page.answers["/"] = 500
    lab.clock.at(1.4, page.answers.clear)
    with open_web_task(lab.context, "tensorboard"):
        assert lab.clock.time == 1.5


def test_a_page_that_refuses_is_an_answer(page: WebServer) -> None:
    page.answers["/"] = 403
    lab = Lab(page)
    with open_web_task(lab.context, "tensorboard"):
        assert lab.clock.time == 0


def test_staying_ends_with_the_task_and_reports_a_lost_host(page: WebServer) -> None:
    lab = Lab(page)
    lab.clock.at(3, lambda: setattr(lab.host, "failure", Unreachable("h1", "no answer")))
    lab.clock.at(9, lambda: setattr(lab.host, "failure", None))
    lab.clock.at(11, lambda: lab.host.exits("tensorboard/0", 1))
    with (
        open_web_task(lab.context, "tensorboard") as opened,
        pytest.raises(
            TaskFailed, match=r"^tensorboard/0: does not run: exited with code 1; start it with `tfprov up`$"
        ),
    ):
        stay(lab.context, opened)
    assert lab.clock.time == 12
    assert any("h1" in str(event) and "no answer" in str(event) for event in lab.report.events)


NOTEBOOK = "notebook: {{hosts: {{h1: }}, vars: {{tfprov: {{port: {port}{bind}}}}}}}\n"


def test_the_token_of_a_notebook_is_part_of_its_address(page: WebServer) -> None:
    lab = Lab(page, NOTEBOOK)
    with open_web_task(lab.context, "notebook") as opened:
        assert opened.url == f"http://127.0.0.1:{lab.port}/", "a command of the user's has a token of its own"
    lab.host.writes("notebook/0", ".tfprov-notebook-token", b"a&b\n")
    with open_web_task(lab.context, "notebook") as opened:
        assert opened.url == f"http://127.0.0.1:{lab.port}/?token=a%26b"
    lab.host.writes("notebook/0", ".tfprov-notebook-token", b"a\xff\n")
    with open_web_task(lab.context, "notebook") as opened:
        assert opened.token == "a\ufffd"


SERVING = "serving: {{hosts: {{h1: }}, vars: {{tfprov: {{port: {port}{bind}{more}}}}}}}\n"


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ("", "v1/models/model"),
        (", serving: {{model_name: digits}}", "v1/models/digits"),
        (", command: [serve]", ""),
    ],
)
def test_a_model_server_is_opened_at_the_state_of_its_model(page: WebServer, more: str, path: str) -> None:
    lab = Lab(page, SERVING.replace("{more}", more))
    with open_web_task(lab.context, "serving") as opened:
        assert opened.url == f"http://127.0.0.1:{lab.port}/{path}"


class Forwarding:
    """Stands in for an SSH connection: every port is forwarded to the page, which is on this machine."""

    host = "h1"

    def __init__(self, page: WebServer) -> None:
        self.page = page
        self.asked: list[tuple[str, int, int]] = []
        self.target = SimpleNamespace(become=False)

    def on_shortage(self, _release: object) -> None:
        """There is none."""

    @contextmanager
    def local_forward(self, address: str, port: int, here: int, *, gate: Any) -> Iterator[int]:
        assert gate.token
        self.asked.append((address, port, here))
        yield self.page.httpd.server_port


def test_a_port_of_this_machine_leads_to_a_task_on_another_one(page: WebServer) -> None:
    lab = Lab(page, bind=EVERYWHERE)
    ssh = Forwarding(page)
    machine = SSHMachine(cast("Any", ssh))
    context = replace(lab.context, machines={"h1": machine})
    with open_web_task(context, "tensorboard") as opened:
        assert opened.gate is not None
        assert opened.url == f"http://127.0.0.1:{lab.port}/?token={opened.gate.token}"
        with_token = replace(opened, token="t", path="lab")
        assert with_token.url == f"http://127.0.0.1:{lab.port}/lab?token={opened.gate.token}&token=t"
    with open_web_task(context, "tensorboard", 8888):
        pass
    assert ssh.asked == [("127.0.0.1", lab.port, 0), ("127.0.0.1", lab.port, 8888)], (
        "its port is in use here: by the page"
    )
