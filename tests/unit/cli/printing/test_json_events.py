"""`--json`: every line is valid by schemas/events.schema.json, which knows every event."""

import io
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support.command_output import SMALLEST, run_command
from tests.support.paths import ROOT
from tfprov.api import Cluster
from tfprov.cli.printing.json_events import JsonEvents
from tfprov.engine import events
from tfprov.errors import HangUp, HostError, Terminated, Unreachable, hide_secret
from tfprov.formats.event_file import EventProgress
from tfprov.history.session import exit_code
from tfprov.history.summary import RunSummary
from tfprov.hosts.memory import MemoryHosts
from tfprov.model.incident import IncidentKind
from tfprov.model.plan import Action, ActionKind
from tfprov.model.state import Observed, State

SCHEMA = json.loads((ROOT / "schemas" / "events.schema.json").read_text())
START = Action(ActionKind.START, "node1", "worker/0", ("not there",))
ALL = [
    events.ActionsPlanned((START,)),
    events.ActionStarted(START),
    events.ActionDone(START),
    events.ActionFailed(START, HostError("node1", "no room")),
    events.ActionSkipped(START),
    events.Note("hello"),
    events.LogLine("worker/0", "\x1b[31m\u202e\x07 nan"),
    events.TrainingProgress(EventProgress(10, 1.0, math.inf, math.nan), 100),
    events.Transferred("node1", 5, 0),
    *(events.Incident("node1 cannot be reached", kind, host="node1") for kind in IncidentKind),
    events.TaskChanged(Observed("worker/0", "node1", State.RUNNING, {})),
    events.RunStarted("20261125T020000Z-abcdef"),
    events.Awaiting("waiting"),
]


def checked(text: str) -> list[dict[str, Any]]:
    """Return the events of an output, each of them validated."""
    validator = jsonschema.Draft202012Validator(SCHEMA)
    parsed = [json.loads(line) for line in text.splitlines()]
    for one in parsed:
        validator.validate(one)
    return parsed


@pytest.mark.parametrize("event", [*ALL, events.LineRedrawn("worker/0", "10%")], ids=lambda event: type(event).__name__)
def test_an_event_that_is_sent_to_a_callback_is_the_same_event(event: events.Event) -> None:
    received: list[events.Event] = []
    event.send(events.Callback(received.append))
    assert received == [event]


def test_every_event_has_a_line_that_the_schema_knows() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert {type(one) for one in ALL} == {*events.Event.__subclasses__(), events.Incident} - {events.LineRedrawn}, (
        "only complete lines are printed"
    )
    out = io.StringIO()
    printer = JsonEvents(out, wall=lambda: 12.5)
    for event in ALL:
        printer.handle(event)
    printer.handle(events.LineRedrawn("worker/0", "10%"))
    printer.emit("result", result={})
    with pytest.raises(Unreachable), printer:
        raise Unreachable("node1", "no route")
    with pytest.raises(KeyboardInterrupt), printer:
        raise KeyboardInterrupt
    lines = checked(out.getvalue())
    assert {line["event"] for line in lines} == {one["title"] for one in SCHEMA["oneOf"]}
    assert "\x1b" not in out.getvalue()
    assert "\u202e" not in out.getvalue()
    progress = next(line for line in lines if line["event"] == "progress")
    assert (progress["loss"], progress["steps_per_second"], progress["time"]) == (None, None, 12.5)
    assert lines[-2]["exit_code"] == 4


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt, 130), (Terminated, 143), (HangUp, 129)])
def test_the_event_of_an_interrupt_has_the_exit_code_of_its_signal(error: type[BaseException], code: int) -> None:
    out = io.StringIO()
    with pytest.raises(error), JsonEvents(out):
        raise error
    assert [(line["event"], line["exit_code"]) for line in checked(out.getvalue())] == [("interrupted", code)]
    assert exit_code(error()) == code


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_lacks_is_null(number: float) -> None:
    out = io.StringIO()
    printer = JsonEvents(out)
    printer.result(RunSummary("lab", "r", "failed", 1.0, loss=number, rate=number, quality={"eval/mse": number}))
    printer.incident(IncidentKind.STRAGGLER, "worker/1 is slow", task="worker/1", rate=number, others=[number, 2.0])
    result, incident = [json.loads(line, parse_constant=pytest.fail) for line in out.getvalue().splitlines()]
    assert (result["result"]["loss"], result["result"]["rate"]) == (None, None)
    assert result["result"]["quality"] == {"eval/mse": None}
    assert incident["values"] == {"rate": None, "others": [None, 2.0]}


def test_a_wait_is_one_event_and_a_transfer_two_a_second() -> None:
    out, now = io.StringIO(), 0.0
    printer = JsonEvents(out, wall=lambda: now)
    for sent, now in ((1, 0.0), (2, 0.1), (3, 0.6), (4, 0.7)):  # noqa: B007
        printer.transferred("node1", sent, 4)
    assert [line["sent"] for line in checked(out.getvalue())] == [1, 3, 4]
    out.truncate(0)
    for what in ("a", "a", "", ""):
        printer.awaiting(what)
    assert out.getvalue().count("awaiting") == 2


def test_secrets_are_masked() -> None:
    hide_secret("correct-horse-battery")
    out = io.StringIO()
    JsonEvents(out).log("worker/0", "the password is correct-horse-battery")
    assert "correct-horse" not in out.getvalue()


@pytest.mark.parametrize(
    "secret", ['quoted"horse"battery', "back\\slash\\staple", "tab\tbetween\twords", "one\nof two\nlines"]
)
def test_secrets_that_json_escapes_are_masked(secret: str) -> None:
    hide_secret(secret)
    out = io.StringIO()
    JsonEvents(out).emit("incident", values={"text": [f"with {secret} in it"]}, **{secret: ""})
    (line,) = map(json.loads, out.getvalue().splitlines())
    assert line["values"] == {"text": ["with ****** in it"]}
    assert line["******"] == ""


def test_a_number_that_a_secret_repeats_is_still_a_number() -> None:
    hide_secret("83920174")
    out = io.StringIO()
    JsonEvents(out, wall=lambda: 83920174.0).note("83920174")
    assert checked(out.getvalue()) == [{"event": "note", "time": 83920174.0, "text": "******"}]


def test_the_verbs_of_a_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "inventory.yml").write_text(SMALLEST.replace("linear.py", "-V"))
    out, hosts = io.StringIO(), MemoryHosts()
    with (
        JsonEvents(out) as printer,
        Cluster.load(tmp_path / "inventory.yml", factory=hosts, on_event=printer.handle) as cluster,
    ):
        printer.result(cluster.up())
        printer.result(cluster.down(discard=True))
    lines = checked(out.getvalue())
    assert [line["event"] for line in lines if line["event"] in ("started", "result")] == [
        "started", "started", "result", "started", "started", "started", "started", "result",
    ]  # fmt: skip
    assert lines[-1]["result"] == {"cluster": "linear", "removed": ["ps/0", "worker/0"]}


@pytest.mark.parametrize("verb", [("gather",), ("wait",), ("down",), ("logs",)])
def test_the_last_line_is_the_result_or_the_error(
    verb: tuple[str, ...], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("inventory.yml").write_text(SMALLEST)
    result = run_command(capsys, *verb, "--json")
    last = checked(result.out)[-1]
    assert last["event"] == ("result" if result.code == 0 else "error")
    assert last.get("exit_code", 0) == result.code
