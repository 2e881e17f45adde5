"""The history is read: tables, single runs, comparisons; damage and later versions are shown and never a crash."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.permissions import forbidden
from tests.support.run_history import progress, record_run, run_id, scripted
from tfprov.engine.events import ActionDone
from tfprov.errors import Usage
from tfprov.file_locks import open_lock, take_lock
from tfprov.history.compare import compare
from tfprov.history.drawing.curves import Curve
from tfprov.history.drawing.html_report import html_report
from tfprov.history.drawing.text_plot import text_plot
from tfprov.history.quality import headline
from tfprov.history.reader import RunHistory
from tfprov.history.removal import remove, to_prune
from tfprov.history.run_dir import RunDir
from tfprov.history.show import row, show_lines
from tfprov.history.summary import RunSummary, with_lost
from tfprov.model.plan import Action, ActionKind


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "clusters" / "lab" / "runs"


def history(runs: Path) -> RunHistory:
    return RunHistory(runs.parent.parent, runs.parent.parent.parent / "runs.sqlite")


def outcomes(runs: Path) -> list[str]:
    return [summary.outcome for summary in history(runs).summaries()]


def _loop(path: Path) -> bool:
    path.symlink_to(path)
    return True


DAMAGE: dict[str, Callable[[RunDir], object]] = {
    "run.json is cut": lambda run: run.run_file.write_bytes(run.run_file.read_bytes()[:50]),
    "run.json is missing": lambda run: run.run_file.unlink(),
    "run.json is a list": lambda run: run.run_file.write_text("[]"),
    "run.json leads to itself": lambda run: run.run_file.rename(run.path / "a") and _loop(run.run_file),
    "end.json is empty": lambda run: run.end_file.write_text(""),
    "end.json has other types": lambda run: run.end_file.write_text('{"schema": 1, "ended": [], "outcome": 3}'),
    "end.json has no schema": lambda run: run.end_file.write_text("{}"),
    "end.json is nested": lambda run: run.end_file.write_text("[" * 100_000),
    "run.json is binary": lambda run: run.run_file.write_bytes(b"\xff\x00\xfe"),
    "run.json has other numbers": lambda run: run.run_file.write_text('{"schema": 1, "started": 1' + "0" * 400 + "}"),
    "run.json has another time": lambda run: run.run_file.write_text('{"schema": 1, "started": 1e30}'),
    "end.json has another time": lambda run: run.end_file.write_text(
        '{"schema": 1, "outcome": "failed", "ended": Infinity}'
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_is_shown_as_damaged_beside_the_others(runs: Path, damage: str) -> None:
    record_run(runs, 1, scripted(3), end={})
    broken = record_run(runs, 2, scripted(3), end={})
    DAMAGE[damage](broken)
    assert outcomes(runs) == ["succeeded", "damaged"]
    assert all(row(one, 0.0) for one in history(runs).summaries())
    if "other" not in damage:  # its JSON is whole, and is shown
        with pytest.raises(
            Usage, match=rf"{broken.id} is damaged: {damage[:8]}.*; its files are in .*runs rm {broken.id}` removes it"
        ):
            history(runs).load(broken.id)
    remove(broken)
    assert outcomes(runs) == ["succeeded"]


def test_a_run_of_a_later_version_is_refused(runs: Path) -> None:
    directory = record_run(runs, 1, scripted(3), end={})
    directory.run_file.write_text(json.dumps({"schema": 2, "started": "Tuesday"}))
    assert outcomes(runs) == ["newer"]
    with pytest.raises(Usage, match=r"was recorded by a later version of tfprov: .*schema version 2; upgrade tfprov"):
        history(runs).load("")


def test_a_run_is_found_by_the_beginning_of_its_id_or_by_its_digits(runs: Path) -> None:
    for number in (1, 2, 70):
        record_run(runs, number, scripted(2), end={})
    read = history(runs)
    assert read.find("").id == run_id(70)
    assert read.find("20260101T01").id == read.find("000046").id == run_id(70)
    with pytest.raises(Usage, match=f"is the beginning of 2 ids; {run_id(1)}, {run_id(2)}"):
        read.find("20260101T00")
    with pytest.raises(Usage, match=rf"no run `20260101T0170`; the closest are .*{run_id(70)}"):
        read.find("20260101T0170")
    with pytest.raises(Usage, match="no runs of cluster `elsewhere`; there are runs of lab"):
        read.summaries("elsewhere")
    with pytest.raises(Usage, match="nothing was recorded yet"):
        RunHistory(runs / "nowhere", runs / "index").find("")


def test_runs_without_an_end_are_told_apart(runs: Path) -> None:
    record_run(runs, 1, scripted(2))  # its verb has ended, and it was left running
    assert outcomes(runs) == ["up"]
    killed = record_run(runs, 2, scripted(2))
    lines = killed.events.read_bytes().splitlines(keepends=True)
    killed.events.write_bytes(b"".join(lines[:-1]))
    assert outcomes(runs) == ["lost", "interrupted"]
    supervised = record_run(runs, 3, scripted(2))
    lock = open_lock(supervised.supervisor_lock)
    assert take_lock(lock), "its supervisor has begun, and does not record yet"
    assert outcomes(runs) == ["lost", "interrupted", "running"]
    os.close(lock)


def test_the_index_is_only_a_copy(runs: Path) -> None:
    index = runs.parent.parent.parent / "runs.sqlite"
    directory = record_run(runs, 1, scripted(2), end={})
    record_run(runs, 2, scripted(2), end={"outcome": "failed", "exit_code": 3})
    first = history(runs).summaries()
    assert first == history(runs).summaries()
    assert index.stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(index) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (1,)
        assert file.execute("SELECT count(*) FROM runs").fetchone() == (2,)
        file.execute("PRAGMA user_version = 99")
    file.close()
    assert history(runs).summaries() == first, "another version is thrown away"
    for content in (b"", b"no database at all" * 100, index.read_bytes()[:3000]):
        index.write_bytes(content)
        assert history(runs).summaries() == first, content[:20]
    end = directory.read(directory.end_file)
    directory.write(directory.end_file, {**end, "outcome": "stopped"})
    assert outcomes(runs) == ["stopped", "failed"], "changed files are read again"
    remove(directory)
    assert outcomes(runs) == ["failed"]
    with sqlite3.connect(index) as file:
        assert file.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    file.close()
    index.unlink()
    index.mkdir()
    assert outcomes(runs) == ["failed"]


def test_two_hundred_runs_of_forty_tasks_are_listed_without_reading_their_files_again(runs: Path) -> None:
    recorded = record_run(runs, 0, scripted(1, tasks=40), end={}, tasks=40)
    for number in range(1, 200):  # the same files under other ids: recording as many takes twenty times as long
        shutil.copytree(recorded.path, runs / run_id(number), copy_function=os.link)
    first = history(runs).summaries()
    assert [summary.run for summary in first] == [run_id(number) for number in range(200)]
    for file in (recorded.run_file, recorded.end_file):
        state = file.stat()
        with file.open("r+b") as content:
            content.write(b"#" * state.st_size)
        os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert history(runs).summaries() == first


def test_a_comparison_has_what_differs_the_figures_and_the_curves(runs: Path) -> None:
    record_run(runs, 1, scripted(20), end={}, learning_rate=0.1, code="</script><script>alert(1)</script>")
    record_run(runs, 2, scripted(30), end={"outcome": "failed"}, learning_rate=0.01, code="plain")
    comparison = compare([history(runs).load(run_id(1)), history(runs).load(run_id(2))])
    assert {one.name: one.values for one in comparison.differences} == {
        "worker.flags.learning_rate": (0.1, 0.01),
        "worker.flags.code": ("</script><script>alert(1)</script>", "plain"),
    }
    assert [(one.outcome, one.step) for one in comparison.figures] == [("succeeded", 950), ("failed", 1450)]
    assert json.loads(json.dumps(comparison.to_dict()))["differences"]["worker.flags.learning_rate"] == [0.1, 0.01]
    page = html_report(comparison)
    assert "<script" not in page
    assert page.count("<polyline") == 2
    assert not [word for word in ("http:", "https:", "src=", "@import") if word in page]
    svg = page[page.index("<svg") : page.index("</svg>") + 6]
    assert len(ElementTree.fromstring(svg).findall(".//polyline")) == 2
    HTMLParser().feed(page)


def test_the_speed_of_a_resumed_run_leaves_out_the_pause(runs: Path) -> None:
    start = ActionDone(Action(ActionKind.START, "h1", "worker/0", ("not there",)))
    for steps in ((100, 150, 200), (180, 230)):  # a sample each second; half an hour lies between the two
        record_run(runs, 1, iter([start, *map(progress, steps)]), end={})
    (figures,) = compare([history(runs).load(run_id(1))]).figures
    assert figures.rate == 50.0


def test_a_difference_that_all_roles_have_in_common_is_one_row(runs: Path) -> None:
    for number, rate in ((1, 0.1), (2, 0.2)):
        directory = record_run(runs, number, scripted(2), end={})
        data = directory.read(directory.run_file)
        worker = {"h1": {"flags": {"rate": rate, "own": 1}, "env": {} if number == 1 else None}}
        data["settings"] = {"worker": worker, "ps": {"h1": {"flags": {"rate": rate, "own": number}}}}
        directory.write(directory.run_file, data)
    comparison = compare([history(runs).load(run_id(1)), history(runs).load(run_id(2))])
    assert {one.name: one.values for one in comparison.differences} == {
        "flags.rate": (0.1, 0.2),
        "ps.flags.own": (1, 2),
    }


def test_pruning_keeps_the_newest_of_each_cluster_and_what_may_run() -> None:
    def one(cluster: str, number: int, outcome: str = "succeeded") -> RunSummary:
        return RunSummary(
            cluster, run_id(number), outcome, 60.0 * number, None if outcome == "up" else 60.0 * number + 30
        )

    runs = [one("a", 1), one("a", 2), one("a", 3, "up"), one("b", 1), one("b", 2)]

    def chosen(keep: int | None, older: float | None) -> list[tuple[str, str]]:
        return sorted((s.cluster, s.run[9:13]) for s in to_prune(runs, keep=keep, older_than=older, now=300.0))

    assert chosen(1, None) == [("a", "0001"), ("a", "0002"), ("b", "0001")]
    assert chosen(0, None) == [("a", "0001"), ("a", "0002"), ("b", "0001"), ("b", "0002")]
    assert chosen(None, 180.0) == [("a", "0001"), ("b", "0001")]
    assert chosen(1, 10000.0) == []


@pytest.mark.parametrize("younger", ["damaged", "newer"])
@pytest.mark.parametrize("outcome", ["up", "interrupted"])
def test_pruning_keeps_what_may_run_when_the_younger_runs_cannot_be_read(outcome: str, younger: str) -> None:
    def one(minute: int, outcome: str) -> RunSummary:
        return RunSummary("a", run_id(minute), outcome, 60.0 * minute)

    runs = [one(1, younger), one(2, outcome), one(3, younger)]

    def pruned(runs: list[RunSummary]) -> list[str]:
        return [summary.run for summary in to_prune(with_lost(runs), keep=0, older_than=None, now=300.0)]

    assert pruned(runs) == [run_id(1)]
    assert pruned([*runs, one(4, "failed"), one(5, "up")]) == [run_id(minute) for minute in (4, 3, 2, 1)]


def test_a_run_that_is_recorded_at_the_moment_is_not_removed(runs: Path) -> None:
    directory = record_run(runs, 1, scripted(2))
    held = directory.hold()
    with pytest.raises(Usage, match="is recorded at the moment; end it with `tfprov down` first"):
        remove(directory)
    assert history(runs).summaries()[0].outcome == "running"
    os.close(held)
    remove(directory)


def test_a_run_in_words(runs: Path) -> None:
    record_run(runs, 1, scripted(20), end={"error": "no"})
    text = "\n".join(show_lines(history(runs).load(""), 0.0))
    for part in (
        "outcome:     succeeded",
        "steps:       950 of 2,000",
        "tensorflow 2.18.0",
        "1 restart",
        "loss by step",
    ):
        assert part in text, part


CURVES = {
    "none": ([], "no curve was recorded"),
    "one point": ([Curve("a", ((5.0, 1.0),))], "•"),
    "not a number": ([Curve("a", ((1.0, float("nan")), (2.0, float("inf"))))], "no curve was recorded"),
    "a constant": ([Curve("a", ((0.0, 2.0), (10.0, 2.0)))], "•"),
    "negative": ([Curve("a", ((0.0, -5.0), (10.0, 1000.0)))], "-5"),
    "two that meet": ([Curve("x", ((0.0, 1.0), (9.0, 3.0))), Curve("y", ((0.0, 1.0), (9.0, 2.0)))], "*"),
}


@pytest.mark.parametrize("case", CURVES)
def test_curves_as_text(case: str) -> None:
    curves, expected = CURVES[case]
    lines = list(text_plot(curves, width=60))
    assert any(expected in line for line in lines), lines
    assert max(map(len, lines)) <= 60


def test_a_falling_curve_falls() -> None:
    lines = list(text_plot([Curve("a", tuple((float(n), 100.0 - n) for n in range(101)))], width=50, height=5))
    columns = [line.index("•") for line in lines if "•" in line]
    assert columns == sorted(columns)
    assert len(columns) == 5


def test_the_curve_of_a_long_run_is_thinned_out(runs: Path) -> None:
    record_run(runs, 1, (progress(step) for step in range(5000)), end={})
    curve = history(runs).load("").curve(100)
    assert 100 <= len(curve) <= 102
    assert (curve[0].step, curve[-1].step) == (0, 4999)


def test_the_headline_is_a_measure_of_an_evaluation() -> None:
    assert headline({"mse": 0.1, "eval/accuracy": 0.9, "eval/mse": 0.2}) == ("eval/accuracy", 0.9)
    assert headline({}) is None


def test_a_history_that_may_not_be_read_is_an_error_and_not_an_empty_one(runs: Path) -> None:
    record_run(runs, 1, scripted(1))
    for path in (runs.parent.parent, runs.parent, runs):
        with (
            forbidden(path),
            pytest.raises(Usage, match=r"^the history of runs cannot be read: .*; give this user acc"),
        ):
            history(runs).summaries()
    assert outcomes(runs) == ["up"]
