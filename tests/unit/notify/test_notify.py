"""Notifications to commands and webhooks: the message, real programs and servers, failures, and no delay."""

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.waiting import LONG, until
from tfprov.engine.events import Event, Incident, Note, TaskChanged
from tfprov.errors import hide_secret
from tfprov.model.incident import IncidentKind
from tfprov.model.sections import Notify
from tfprov.model.state import Observed, State
from tfprov.notify.message import Message, ending_of, incident_of
from tfprov.notify.notifier import Notifier
from tfprov.notify.targets import NotSent, name_of, send

MESSAGE = Message("failed", "lab", "run-1", "it failed; ⚠", 5.0, values={"exit_code": 3, "outcome": "failed"})


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    received: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, body))
            code = int(self.path.strip("/") or 200)
            if code == 302:
                self.send_response(302)
                self.send_header("Location", "/200")
            elif code == 1:
                self.wfile.write(b"\x00 no HTTP at all\r\n\r\n")
                return
            else:
                self.send_response(code)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.received = received  # type: ignore[attr-defined]
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield http
        http.shutdown()
        thread.join()


def url(server: ThreadingHTTPServer, code: int = 200) -> str:
    return f"http://127.0.0.1:{server.server_port}/{code}"


def test_a_webhook_gets_the_event_as_json(server: ThreadingHTTPServer) -> None:
    send(Notify(url=url(server)), MESSAGE)
    ((path, body),) = server.received  # type: ignore[attr-defined]
    assert path == "/200"
    assert json.loads(body) == {
        "schema": 1,
        "event": "failed",
        "cluster": "lab",
        "run": "run-1",
        "text": "it failed; ⚠",
        "at": 5.0,
        "task": "",
        "host": "",
        "exit_code": 3,
        "outcome": "failed",
    }


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (500, "it answered 500"),
        (404, "it answered 404"),
        (302, "it answered 302"),
        (1, "does not answer as a web server"),
    ],
)
def test_a_webhook_that_refuses_is_reported(server: ThreadingHTTPServer, code: int, why: str) -> None:
    with pytest.raises(NotSent, match=why):
        send(Notify(url=url(server, code)), MESSAGE)
    assert len(server.received) == 1, "a redirect is not followed"  # type: ignore[attr-defined]


def test_a_webhook_that_is_not_there_is_reported(server: ThreadingHTTPServer) -> None:
    with pytest.raises(NotSent, match="cannot be reached: "):
        send(Notify(url="http://127.0.0.1:1/secret-path"), MESSAGE)
    assert name_of(Notify(url="https://hooks.example.com/secret-path")) == "hooks.example.com"


def test_a_command_gets_the_event_on_standard_input_and_in_variables(tmp_path: Path) -> None:
    program = "import json, os, sys; print(json.load(sys.stdin)['text'], os.environ['TFPROV_EVENT'])"
    out = tmp_path / "out"
    send(Notify(command=["sh", "-c", f'"$1" -c "$2" > {out}', "sh", sys.executable, program]), MESSAGE)
    assert out.read_text() == "it failed; ⚠ failed\n"
    send(Notify(command=f"sh -c 'echo \"$TFPROV_RUN $TFPROV_EXIT_CODE\" > {out}'"), MESSAGE)
    assert out.read_text() == "run-1 3\n"


def test_a_command_is_run_where_the_disk_has_no_room_for_its_output(tmp_path: Path) -> None:
    def full() -> NoReturn:
        raise FileNotFoundError(2, "No usable temporary directory")

    send(Notify(command=["touch", str(tmp_path / "sent")]), MESSAGE, open_file=full)
    assert (tmp_path / "sent").exists()
    with pytest.raises(NotSent, match=r"it ended with exit code 3$"):
        send(Notify(command=["sh", "-c", "echo why; exit 3"]), MESSAGE, open_file=full)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["sh", "-c", "echo no mail; exit 3"], "ended with exit code 3: no mail"),
        (["no-such-program"], "cannot be started: No such file"),
        (["sleep", "60"], "did not end within 0.2 s"),
        (["a\0b"], "cannot be started"),
    ],
)
def test_a_command_that_fails_is_reported(command: list[str], why: str) -> None:
    target = Notify.model_construct(command=command, url=None, events=["failed"])
    with pytest.raises(NotSent, match=why):
        send(target, MESSAGE, 0.2 if "sleep" in command else 10.0)


class Target:
    """Records what is sent to it; the first `failures` tries fail."""

    def __init__(self, failures: int = 0) -> None:
        self.failures, self.tries, self.messages = failures, 0, list[Message]()
        self.warnings: list[str] = []

    def __call__(self, _target: Notify, message: Message) -> None:
        self.tries += 1
        if self.tries <= self.failures:
            raise NotSent("it is away")
        self.messages.append(message)

    def notifier(self, *targets: Notify) -> Notifier:
        return Notifier(
            targets, "lab", lambda: "run-1", self.warnings.append, send=self, wall=lambda: 5.0, pauses=(0.0, 0.0)
        )


WEBHOOK = Notify(url="https://hooks.example.com/x")


def test_a_target_is_tried_again_and_a_lasting_failure_is_one_line() -> None:
    target = Target(2)
    notifier = target.notifier(WEBHOOK)
    notifier.send(MESSAGE)
    notifier.close()
    assert (target.tries, target.messages, target.warnings) == (3, [MESSAGE], [])
    target = Target(1000)
    notifier = target.notifier(WEBHOOK)
    for _ in range(5):
        notifier.send(MESSAGE)
    notifier.close()
    assert (target.tries, target.messages) == (15, [])
    assert target.warnings == ["notify: `failed` was not sent to hooks.example.com: it is away"]


def test_a_warning_that_nobody_reads_does_not_hold_up_further_messages() -> None:
    def closed(_text: str) -> NoReturn:
        raise BrokenPipeError

    target = Target(3)
    notifier = Notifier([WEBHOOK], "lab", lambda: "run-1", closed, send=target, pauses=(0.0, 0.0))
    notifier.send(MESSAGE)
    end = Message("ended", "lab", "run-1", "it succeeded", 6.0)
    notifier.send(end)
    notifier.close(LONG)
    assert (target.tries, target.messages) == (4, [end])


def test_a_target_that_fails_does_not_hold_up_the_others_at_the_end_of_a_run() -> None:
    sink, warnings, hangs, tries = Target(), list[str](), threading.Event(), list[str]()

    def send(target: Notify, message: Message) -> None:
        tries.append(name_of(target))
        if target.command and (hangs.wait(LONG) or True):
            raise NotSent("it is away")
        sink(target, message)

    targets = [Notify(command=["away"]), WEBHOOK]
    notifier = Notifier(targets, "lab", lambda: "r", warnings.append, send=send, pauses=(LONG,))
    notifier.send(MESSAGE)
    notifier.close(0.01)
    assert warnings == ["notify: 0.01 s were not enough for all messages: some are not sent"]
    hangs.set()
    until(lambda: len(sink.messages) == 1, "the webhook gets its message before the command is tried again")
    assert sorted(tries) == ["`away`", "hooks.example.com"]


def test_targets_are_sent_to_side_by_side_and_warnings_are_in_their_order() -> None:
    warnings, both, second = list[str](), threading.Barrier(2, timeout=LONG), threading.Event()

    def send(target: Notify, _message: Message) -> None:
        try:
            both.wait()  # each waits until the other one is sent, too
        except threading.BrokenBarrierError:
            raise NotSent("it is alone") from None
        if target.command == ["one"]:
            second.wait(LONG)
        else:
            second.set()
        raise NotSent("it is away")

    targets = [Notify(command=["one"]), Notify(command=["two"])]
    notifier = Notifier(targets, "lab", lambda: "r", warnings.append, send=send, pauses=())
    notifier.send(MESSAGE)
    notifier.close(LONG)
    assert warnings == [f"notify: `failed` was not sent to `{name}`: it is away" for name in ("one", "two")]


def test_only_chosen_events_are_sent_and_a_crash_loop_once() -> None:
    target = Target()
    notifier = target.notifier(Notify(command=["x"], events=["crash_loop", "host_lost"]))
    gave_up = Observed("worker/1", "h1", State.EXITED, {}, exit_code=1, gave_up=True)
    events: list[Event] = [
        Note("a note"),
        Incident("worker/1 was started again", IncidentKind.RESTARTED, "worker/1", "h1"),
        Incident("slow", IncidentKind.STRAGGLER, "worker/2", "h2"),
        Incident("worker/1 failed twice", IncidentKind.CRASH_LOOP, "worker/1", "h1"),
        TaskChanged(gave_up),
        Incident("h3 cannot be reached", IncidentKind.HOST_LOST, host="h3"),
    ]
    for event in events:
        notifier.handle(event)
    notifier.send(MESSAGE)
    notifier.close()
    assert [(one.event, one.task, one.host) for one in target.messages] == [
        ("crash_loop", "worker/1", "h1"),
        ("host_lost", "", "h3"),
    ]


def test_a_run_never_waits_and_messages_beyond_the_queue_are_dropped() -> None:
    released = threading.Event()
    sink = Target()

    def slow(target: Notify, message: Message) -> None:
        released.wait(LONG)
        sink(target, message)

    notifier = Notifier([WEBHOOK], "lab", lambda: "r", sink.warnings.append, send=slow)
    for _ in range(500):
        notifier.send(MESSAGE)
    assert sink.warnings == ["notify: messages are dropped, as the ones before them are not sent yet"]
    notifier.close(0.01)
    released.set()
    until(lambda: len(sink.messages) >= 100, "the others are sent")


def test_the_end_of_a_run_in_words() -> None:
    error = "worker/0: exited with code 7\n  worker/0 | x"
    end = {"outcome": "failed", "exit_code": 7, "error": error, "last": {"step": 1200}, "ended": 3.0}
    failed = ending_of("lab", "run-1", end)
    assert (failed.event, failed.text) == (
        "failed",
        "lab: run run-1 failed at step 1,200: worker/0: exited with code 7",
    )
    done = ending_of("lab", "run-1", {"outcome": "succeeded", "exit_code": 0, "last": None, "error": ""})
    assert (done.event, done.text, done.values["loss"]) == ("ended", "lab: run run-1 succeeded", None)
    assert ending_of("lab", "r", {"outcome": "deadline"}).event == "failed"
    assert incident_of(Note("x")) is None


def test_secrets_are_masked_in_notifications() -> None:
    hide_secret("swordfish-swordfish")
    message = Message("failed", "lab", "r", "the token swordfish-swordfish is wrong", 1.0)
    assert "swordfish" not in json.dumps(message.to_dict()) + str(message.environment())
