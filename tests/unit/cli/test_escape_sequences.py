"""Output of programs and hosts never steers the terminal: payloads through everything that prints."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tests.support.terminal import terminal
from tfprov.cli.escape_sequences import Screened, json_screened, screened, write_document
from tfprov.cli.main import run
from tfprov.cli.output import Printer, table
from tfprov.cli.printing.live_line import LiveLine
from tfprov.errors import HostError, TaskFailed
from tfprov.hosts.docker.exec import forward_output
from tfprov.model.plan import Action, ActionKind

PAYLOADS = {
    "cursor up and erase": "\x1b[3A\x1b[2Kforged",
    "clear the screen": "\x1b[2J\x1b[H",
    "alternate screen": "\x1b[?1049h",
    "reset": "\x1bc",
    "8-bit cursor up": "\x9b5A\x9b2Jforged",
    "title": "\x1b]0;owned\x07",
    "title, 8 bits": "\x9d0;owned\x9c",
    "clipboard": "\x1b]52;c;cm0gLXJmIC8K\x1b\\",
    "an OSC that never ends": "\x1b]0;owned",
    "device control": "\x1bP$q q\x1b\\",
    "asks for an answer": "\x1b[6n\x1b[c\x05",
    "bell, backspace, form feed, vertical tab": "\x07\x08\x08\x08\x0c\x0b",
    "carriage return": "hidden\rshown",
    "shift out": "\x0e\x0f",
    "half a sequence": "\x1b[",
    "a sequence in a sequence": "\x1b[\x1b[2J2J",
    "a sequence that screening would make": "\x1b\x1b[2K[2J",
    "scrolling region": "\x1b[1;2r",
    "direction of writing": "\u202eevil\u2066\u2069\u200f",
    "line separators": "\u2028\u2029\x85",
    "delete and null": "\x7f\x00",
    "a surrogate": "\udc9b2J",
    "a colour that stays": "\x1b[31mred",
    "concealed": "\x1b[8m",
}
ALLOWED = re.compile(r"\x1b\[[0-9;:]*m")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
OF_THE_LIVE_LINE = re.compile(r"\r|\x1b\[K|\x1b\[\?7[lh]")


class OnTerminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def steers(text: str, *, colours: bool = True) -> list[str]:
    """Return what in `text` could steer a terminal."""
    rest = ALLOWED.sub("", text) if colours else text
    return CONTROL.findall(rest)


def printers(payload: str) -> dict[str, Callable[[Printer], None]]:
    """Return everything that prints what programs and hosts say."""
    start = Action(ActionKind.START, payload, payload, ())
    lines = table([("TASK", payload), (payload, "a")])
    return {
        "note": lambda printer: printer.note(payload),
        "log": lambda printer: printer.log("worker/0", payload),
        "log of a task": lambda printer: printer.log(payload, "line"),
        "failed": lambda printer: printer.failed(start, HostError("h1", payload)),
        "done": lambda printer: printer.done(start),
        "skipped": lambda printer: printer.skipped(start),
        "table": lambda printer: printer.print("\n".join(lines)),
    }


@pytest.mark.parametrize("is_terminal", [True, False])
def test_no_printer_lets_a_control_sequence_through(is_terminal: bool) -> None:
    wrong = []
    for name, payload in PAYLOADS.items():
        for printer_name, write in printers(payload).items():
            out = OnTerminal() if is_terminal else io.StringIO()
            write(Printer(live=False, out=out))
            if steers(out.getvalue(), colours=is_terminal):
                wrong.append((name, printer_name, out.getvalue()))
        line = OnTerminal()
        LiveLine(line, lambda: 80).show(f"starting {payload} on {payload}")
        LiveLine(line, lambda: 80).print(payload)
        if steers(OF_THE_LIVE_LINE.sub("", line.getvalue().replace("\x1b[K", ""))):
            wrong.append((name, "live line", line.getvalue()))
    assert wrong == []


def test_what_was_printed_before_and_after_a_payload_stays_on_the_screen() -> None:
    with terminal(200, rows=400) as window, Printer(out=window.out) as printer:
        for name, payload in PAYLOADS.items():
            printer.note(f"before {name}")
            printer.log("worker/0", payload)
            printer.awaiting(payload)
            printer.show()
            printer.note(f"after {name}")
    text = window.lines()
    for name in PAYLOADS:
        at = text.index(f"before {name}")
        assert text[at + 2] == f"after {name}", text[at : at + 4]
        assert text[at + 1].startswith("worker/0 |")


def test_a_colour_ends_with_its_line_and_other_text_is_untouched() -> None:
    cases = {
        "\x1b[31mred": "\x1b[31mred\x1b[0m",
        "\x1b[31mred\nnext": "\x1b[31mred\x1b[0m\nnext",
        "\x1b[38;5;0mblack": "\x1b[38;5;0mblack\x1b[0m",
        "\x1b[31mred\x1b[0m": "\x1b[31mred\x1b[0m",
        "\x1b[31mred\x1b[m plain": "\x1b[31mred\x1b[m plain",
        "a\tb\r\nc": "a\tb\nc",
        "é 模型 \U0001f680 \u00a0 \u3000": "é 模型 \U0001f680 \u00a0 \u3000",
        "link: \x1b]8;;http://h\x1b\\text\x1b]8;;\x1b\\": "link: text",
        "hidden\rshown": "hidden\N{REPLACEMENT CHARACTER}shown",
    }
    assert {text: screened(text, colours=True) for text in cases} == cases
    assert screened("\x1b[31mred\x1b[0m", colours=False) == "red"


def test_errors_of_verbs_and_documents_are_screened_and_json_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    evil = "".join(PAYLOADS.values()).replace("\udc9b", "")
    data = {"all": {"hosts": {"h1": {"note": evil}}}}
    Path("i.json").write_text(json.dumps(data))
    verbs = {
        "graph": ["inventory", "graph", "--vars"],
        "list": ["inventory", "list"],
        "yaml": ["inventory", "list", "-y"],
        "explain": ["inventory", "explain", "h1"],
        "a host that is not there": ["inventory", "host", evil],
        "a verb": [evil],
    }
    shown = {}
    for name, words in verbs.items():
        out = OnTerminal()
        with redirect_stdout(Screened(out)), redirect_stderr(Screened(out)):
            run([*words, "-i", "i.json"] if name != "a verb" else words)
        shown[name] = out.getvalue()
        assert shown[name], name
    assert {name: steers(text) for name, text in shown.items() if steers(text)} == {}
    assert json.loads(shown["list"])["_meta"]["hostvars"]["h1"]["note"] == evil
    failed = OnTerminal()
    print(TaskFailed("worker/0", evil, [evil], others=[evil]), file=Screened(failed))
    assert steers(failed.getvalue()) == []


def test_a_document_goes_to_a_pipe_as_it_is_and_json_keeps_its_value() -> None:
    pipe, tty = io.StringIO(), OnTerminal()
    write_document("a\x9bb\n", Screened(pipe))
    write_document("a\x9bb\n", Screened(tty))
    assert pipe.getvalue() == "a\x9bb\n"
    assert steers(tty.getvalue()) == []
    text = json.dumps({"a\x7f": "\x9b\u202e\x1b"}, ensure_ascii=False)
    assert json.loads(json_screened(text)) == json.loads(text)
    assert steers(json_screened(text)) == []


def test_the_command_screens_both_of_its_streams(tmp_path: Path) -> None:
    (tmp_path / "i.json").write_text(json.dumps({"all": {"hosts": {"h1": {"note": "\x1b[2J\x9b2J"}}}}))
    argv = [sys.executable, "-m", "tfprov", "inventory", "graph", "--vars", "-i", "i.json"]
    done = subprocess.run(
        argv, capture_output=True, cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)}, check=True
    )
    assert steers(done.stdout.decode(), colours=False) == []
    assert b"note" in done.stdout


def test_output_of_exec_goes_to_its_two_streams_and_to_no_other_descriptor() -> None:
    reading, writing = os.pipe()
    forward_output(writing, b"forged")
    os.close(writing)
    assert os.read(reading, 10) == b""
    os.close(reading)
