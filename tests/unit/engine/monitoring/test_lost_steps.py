"""Steps that programs lose without saying so, as seen in the chief's event files, else from its checkpoints."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.support.event_files import event
from tests.support.memory_lab import AGAIN, MemoryLab, follow_with_steps
from tfprov.engine.checkpoints.forecast import forecast
from tfprov.engine.checkpoints.gather import gather
from tfprov.engine.observe import observe, plan
from tfprov.formats.tfrecord import write_record
from tfprov.playbook.gathering import report_lost_steps


def at(lab: MemoryLab, *steps: int, file: str = "events.out.tfevents.1", time: float = 1.0) -> Callable[[], None]:
    """The chief's event file has events of `steps`, a second apart; each file is newer than those before."""

    def writes() -> None:
        content = io.BytesIO()
        write_record(content, event(0.5, 0))
        for number, step in enumerate(steps):
            write_record(content, event(time + number, step, {"loss": 0.5}))
        lab.hosts["h2"].now += 1
        lab.hosts["h2"].saves("worker/0", file, content.getvalue())

    return writes


def saves(lab: MemoryLab, step: int, name: str = "model.ckpt") -> Callable[[], None]:
    def save() -> None:
        lab.hosts["h2"].now += 1
        for part in ("data-00000-of-00001", "index"):
            lab.hosts["h2"].saves("worker/0", f"{name}-{step}.{part}", b"x")

    return save


def falls(lab: MemoryLab, task: str = "worker/0") -> Callable[[], None]:
    """A task is killed, and started again by its restart policy."""
    return lambda: lab.hosts["h2" if task == "worker/0" else "h1"].exits(task, 137)


def ends(lab: MemoryLab) -> Callable[[], None]:
    return lambda: lab.hosts["h2"].exits("worker/0", 0)


def pause() -> None:
    """Nothing happens while the training is looked at."""


def test_a_training_that_falls_back_is_reported_once_and_only_after_a_task_fell() -> None:
    def trained(lab: MemoryLab) -> dict[str, list[Callable[[], None]]]:
        newer = "events.out.tfevents.2"
        return {
            "825 -> 8": [
                at(lab, 825),
                pause,
                falls(lab),
                at(lab, 8, file=newer),
                pause,
                at(lab, 20, file=newer),
                pause,
            ],
            "900 -> 850": [at(lab, 900), pause, falls(lab, "ps/1"), *[pause] * 6, at(lab, 850), pause],
            # written in blocks: the fall is in the middle of what comes next
            "380 -> 10": [
                at(lab, 375),
                pause,
                falls(lab, "ps/1"),
                *[pause] * 4,
                at(lab, 375, 380, 10, 563),
                *[pause] * 6,
            ],
            # events are left out until the step is where it was, but the new session saves at once
            "281 -> 0": [
                saves(lab, 0),
                at(lab, 281),
                pause,
                falls(lab, "ps/0"),
                *[pause] * 4,
                saves(lab, 0),
                *[pause] * 4,
            ],
            "400 -> 16": [saves(lab, 400), pause, falls(lab), saves(lab, 16), pause],
            # a program that counts anew with each epoch, an evaluator beside it, a chief that goes on where it was
            "": [at(lab, 900), pause, at(lab, 3), pause, at(lab, 2, file="eval/events.out.tfevents.1"), pause],
            "  ": [at(lab, 375, 2, 375), pause, falls(lab), at(lab, 375, 2, 375, 400), pause, pause],
            # what was saved before a restart is no step that the new session has come to
            "    ": [saves(lab, 0), at(lab, 281), pause, falls(lab, "ps/0"), *[pause] * 6, at(lab, 281, 290), pause],
            # a program of TensorFlow 2, whose checkpoints count how often it saved
            "   ": [at(lab, 50), saves(lab, 5, "ckpt"), pause, falls(lab), saves(lab, 6, "ckpt"), pause, pause],
            "7 -> 2": [saves(lab, 7, "ckpt"), pause, falls(lab), saves(lab, 2, "ckpt"), pause],
            " ": [at(lab, 900), pause, falls(lab), at(lab, 901, file=newer), pause],
        }

    wrong = {}
    for message in trained(MemoryLab(text=AGAIN)):
        lab = MemoryLab(text=AGAIN)
        # Progress is read at every second look.
        follow_with_steps(lab.context, *trained(lab)[message], pause, ends(lab))
        notes = [note for note in lab.report.notes if "went back" in note]
        if notes != ([f"the training went back {message}"] if message.strip() else []):
            wrong[message] = lab.report.notes
    assert wrong == {}


def test_steps_that_are_in_no_checkpoint_are_reported_with_what_was_gathered(tmp_path: Path) -> None:
    expected = "worker/0 was at step 1,248 and did not save"
    rows = {
        "running": "worker/0 is at step 1,248 and has saved nothing since model.ckpt-16",
        "stopped": f"{expected} when it was stopped: 1232 steps since model.ckpt-16 are lost",
        "ended": f"{expected} at its end: 1232 steps since model.ckpt-16 are lost",
    }
    for state, message in rows.items():
        lab = MemoryLab()
        context = replace(lab.context, target=tmp_path / state)
        saves(lab, 16)()
        at(lab, 1248)()
        if state == "stopped":
            lab.hosts["h2"].stop("worker/0", 1)
        elif state == "ended":
            lab.hosts["h2"].exits("worker/0", 0)
        seen = observe(context)
        chief = context.chief(seen)
        assert chief is not None
        gather(context, lambda _prefixes: {}, seen)
        report_lost_steps(context, chief, seen)
        assert lab.report.notes[-1:] == [message], state
        saves(lab, 1248)()
        gather(context, lambda _prefixes: {}, seen)
        report_lost_steps(context, chief, seen)
        assert lab.report.notes[-1:] == [message], state


def test_a_plan_says_when_the_step_that_it_names_is_an_old_one() -> None:
    lab = MemoryLab()
    saves(lab, 400)()
    at(lab, 450, time=100.0)()
    wanted = tuple(replace(one, spec={**one.spec, "flags": {"a": "b"}}) for one in lab.context.wanted)
    context = replace(lab.context, wanted=wanted)
    seen = observe(context)
    for now, message in (
        (150.0, "(it is at 450)"),
        (220.0, "(it is at 450)"),
        (220.5, "(it was at 450 2 min ago, and has written no event since)"),
        (940.0, "(it was at 450 14 min ago, and has written no event since)"),
    ):
        lab.clock.time = now
        goes_on = "the training goes on from step 400, or later if it saves when stopped"
        assert forecast(context, plan(context, seen), seen) == f"{goes_on} {message}"


def test_a_plan_names_no_step_before_the_checkpoint_from_which_the_training_goes_on() -> None:
    lab = MemoryLab()
    at(lab, 450, time=100.0)()
    saves(lab, 470)()
    wanted = tuple(replace(one, spec={**one.spec, "flags": {"a": "b"}}) for one in lab.context.wanted)
    context = replace(lab.context, wanted=wanted)
    seen = observe(context)
    lab.clock.time = 120.0
    goes_on = "the training goes on from step 470, or later if it saves when stopped"
    assert forecast(context, plan(context, seen), seen) == f"{goes_on} (it is at 470)"
    at(lab, 470, time=110.0)()
    seen = observe(context)
    lab.clock.time = 111.0 + 120.0
    text = f"{goes_on} (it was at 470 2 min ago, and has written no event since)"
    assert forecast(context, plan(context, seen), seen) == text, "by the event, which is older than the checkpoint"
