"""A chief that ends without a gathered checkpoint: the lines, what is kept, and how its model is brought."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.clock import ManualClock
from tests.support.memory_cluster import make_context, run_up
from tests.support.reporters import RecordingReporter
from tests.support.runtime_bench import ProcessBench, container
from tfprov.engine.checkpoints.model_files import NothingSaved, check_path, copy_path
from tfprov.engine.events import Transferred
from tfprov.errors import GatherError, HostError, TfprovError, Usage
from tfprov.formats.checkpoint import model_files, model_roots
from tfprov.hosts.base import Tree
from tfprov.hosts.memory import MemoryRuntime
from tfprov.hosts.memory_task import MemoryOutsideFiles
from tfprov.model.state import Observed, State
from tfprov.paths import shipped_directory
from tfprov.playbook.parse import read_playbook
from tfprov.playbook.player import PlayOptions
from tfprov.playbook.run import play

INVENTORY = """
all: {vars: {tfprov: {cluster: lab, command: [python], restart: never}}}
ps: {hosts: {h1: }}
worker: {hosts: {h2: }}
"""
CHIEF = "worker/0"
NO_HOSTS: Mapping[str, MemoryRuntime] = {}


class Lab:
    """A ps and a chief that train, and a verb to end that with."""

    def __init__(self, directory: Path, *settings: str, hosts: Mapping[str, MemoryRuntime] = NO_HOSTS) -> None:
        self.hosts = dict(hosts)
        self.report = RecordingReporter()
        made = make_context(INVENTORY, settings, self.hosts)
        self.target = directory / "lab"
        self.context = replace(
            made, home=directory / "home", target=self.target, report=self.report, verify=lambda _: {}
        )
        run_up(self.context)
        self.host = self.hosts["h2"]

    def play(self, verb: str, code: int | None = None, *, discard: bool = False) -> str:
        """Play a playbook; return the error it ends with, else nothing. `code` is what the chief ends with by itself."""
        clock = ManualClock()
        if code is not None and verb == "run":
            clock.at(1.0, lambda: self.host.exits(CHIEF, code))
        elif code is not None:
            self.host.exits(CHIEF, code)
        context = replace(self.context, clock=clock)
        try:
            play(
                context,
                read_playbook(shipped_directory("playbooks") / f"{verb}.yml"),
                PlayOptions(verb, discard=discard),
            )
        except TfprovError as error:
            return str(error)
        return ""

    @property
    def left(self) -> list[str]:
        return sorted(task for host in self.hosts.values() for task in host.places)


@dataclass
class Row:
    """What a training leaves, how it is ended, and what a user reads."""

    verb: str
    how: str
    elsewhere: tuple[str, ...] = ()
    here: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    discard: bool = False
    error: str = ""
    note: str = ""
    kept: bool = False


WEIGHTS = ("out/model.ckpt-9.index", "out/model.ckpt-9.data-00000-of-00001")
NONE = "worker/0 has ended: no checkpoint lies in TFPROV_CHECKPOINT_DIR (/memory/h2/worker/0), and"
SAVE = "; save there, or set `checkpoints: none` for a program that saves nothing"
NO_MODEL = f"{NONE} nothing that it wrote looks like a model{SAVE}"
STAYS = f"{NONE} it has written /root/best.pt, which stays on h2{SAVE}"
KEPT = (
    "worker/0 on h2 is kept: no checkpoint lies in TFPROV_CHECKPOINT_DIR (/memory/h2/worker/0), and it has written {}; "
    "bring {} with `tfprov gather --path {}` and run this again, or remove it for good with `tfprov down --discard`"
)
KEPT_OUT = KEPT.format("out", "it", "out")
NINE = ("m-9.index", "m-9.data-00000-of-00001")
KEPT_TOO = (
    "worker/0 on h2 is kept: it has written {} outside of TFPROV_CHECKPOINT_DIR (/memory/h2/worker/0); "
    "bring it with `tfprov gather --path {}` and run this again, or remove it for good with `tfprov down --discard`"
)
ROWS: Mapping[str, Row] = {
    "run, nothing at all": Row("run", "is done", error=NO_MODEL),
    "run, other files": Row("run", "is done", elsewhere=("notes.txt", "x.index"), here=("events.out",), error=NO_MODEL),
    "run, a checkpoint elsewhere": Row("run", "is done", elsewhere=WEIGHTS, error=KEPT_OUT, kept=True),
    "run, several": Row(
        "run", "is done", elsewhere=("b c.h5", "a.npz"), error=KEPT.format("a.npz, b c.h5", "each", "a.npz"), kept=True
    ),
    "run, a name with a blank": Row(
        "run", "is done", elsewhere=("b c.h5",), error=KEPT.format("b c.h5", "it", "'b c.h5'"), kept=True
    ),
    "run, what stays on the host": Row("run", "is done", elsewhere=("/root/best.pt",), error=STAYS),
    "run, a model where it belongs": Row("run", "is done", here=("final.keras",)),
    "run, a checkpoint where it belongs": Row(
        "run", "is done", here=("m-9.index", "m-9.data-00000-of-00001"), elsewhere=WEIGHTS
    ),
    "run, a final model beside its checkpoints": Row(
        "run",
        "is done",
        here=NINE,
        elsewhere=("a.npz", "x.keras"),
        error=KEPT_TOO.format("x.keras", "x.keras"),
        kept=True,
    ),
    "down, a final model beside its checkpoints": Row(
        "down",
        "runs",
        here=("epoch1.keras",),
        elsewhere=("out/saved_model.pb", "out/variables/variables.index"),
        error=KEPT_TOO.format("out", "out"),
        kept=True,
    ),
    "run, models that stay on the host beside its checkpoints": Row(
        "run", "is done", here=NINE, elsewhere=("/root/best.keras",)
    ),
    "run, a final model, discarded": Row("run", "is done", here=NINE, elsewhere=("x.keras",), discard=True),
    "run, none is expected": Row("run", "is done", elsewhere=WEIGHTS, settings=("tfprov.checkpoints=none",)),
    "run, discarded": Row("run", "is done", elsewhere=WEIGHTS, discard=True),
    "run, it failed": Row("run", "fails", error="worker/0: exited with code 1"),
    "run, it failed with a model": Row(
        "run", "fails", elsewhere=WEIGHTS, error="worker/0: exited with code 1", note=KEPT_OUT, kept=True
    ),
    "down, it failed at its start": Row("down", "fails"),
    "down, it failed with a model": Row("down", "fails", elsewhere=WEIGHTS, error=KEPT_OUT, kept=True),
    "down, nothing yet": Row("down", "runs", note=NO_MODEL),
    "down, it was done": Row("down", "is done", note=NO_MODEL),
    "down, a model elsewhere": Row("down", "runs", elsewhere=WEIGHTS, error=KEPT_OUT, kept=True),
    "down, discarded": Row("down", "runs", elsewhere=WEIGHTS, discard=True),
}


def test_the_end_of_a_chief_without_a_checkpoint(tmp_path: Path) -> None:
    wrong = {}
    for number, (name, row) in enumerate(ROWS.items()):
        lab = Lab(tmp_path / str(number), *row.settings)
        for path in row.elsewhere:
            lab.host.writes(CHIEF, path, b"weights")
        for path in row.here:
            lab.host.saves(CHIEF, path, b"weights")
        error = lab.play(row.verb, {"is done": 0, "fails": 1, "runs": None}[row.how], discard=row.discard)
        text = "\n".join(lab.report.notes)
        seen = (error, row.note in text, NONE in text + error or "is kept" in text + error, lab.left)
        expected = (row.error, True, NONE in row.note + row.error or row.kept, [CHIEF] if row.kept else [])
        if seen != expected:
            wrong[name] = (seen, text)
    assert wrong == {}


def test_what_was_brought_lets_the_chief_go(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    for path in (*WEIGHTS, "best.h5"):
        lab.host.writes(CHIEF, path, path.encode())
    lab.host.writes(CHIEF, "out/notes.txt", b"accuracy 0.97")
    assert "has written best.h5, out" in lab.play("down")
    brought = copy_path(lab.context, "out/")
    assert (brought.at, brought.files) == (lab.target / "out", 3)
    assert {path.name: path.read_bytes() for path in brought.at.iterdir()} == {
        **{Path(path).name: path.encode() for path in WEIGHTS},
        "notes.txt": b"accuracy 0.97",
    }
    assert "has written best.h5; bring it" in lab.play("down")
    assert "has written best.h5; bring it" in lab.play("up"), "a new start would remove it"
    copy_path(lab.context, "best.h5")
    assert (lab.play("down"), lab.left) == ("", [])


def test_what_lies_beside_the_gather_directory_is_no_model_of_the_chief(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    for number, name in enumerate(("link/out/best.pt", "disk/out/best.pt")):
        lab = Lab(tmp_path / str(number))
        lab.target = tmp_path / "link" / "lab"
        lab.context = replace(lab.context, target=lab.target)
        lab.host.writes(CHIEF, str(tmp_path / name), b"weights")
        assert lab.play("run", 0) == NO_MODEL, name


def test_a_second_time_brings_what_is_there_now_and_nothing_else_is_replaced(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.host.writes(CHIEF, "a/m.h5", b"one")
    lab.host.writes(CHIEF, "b/m.h5", b"other")
    copy_path(lab.context, "a/m.h5")
    lab.host.writes(CHIEF, "a/m.h5", b"two")
    copy_path(lab.context, "./a/m.h5")
    with pytest.raises(GatherError, match=r"/lab/m\.h5 is there, and was not brought from b/m\.h5; move it away$"):
        copy_path(lab.context, "b/m.h5")
    with pytest.raises(HostError, match=r"^h2: no such file or directory: c$"):
        copy_path(lab.context, "c")
    with pytest.raises(Usage, match=r"^`--path a/\.\./b/m\.h5` has"):
        copy_path(lab.context, "a/../b/m.h5")
    for name in ("checkpoint", "manifest.json", "logs", ".part"):
        lab.host.writes(CHIEF, f"c/{name}", b"")
        with pytest.raises(GatherError) as caught:
            copy_path(lab.context, f"c/{name}")
        fix = f"bring the directory with c/{name}"
        assert str(caught.value) == f"{lab.target}/{name} is a name that `gather` needs; {fix}"
    assert (lab.target / "m.h5").read_bytes() == b"two"
    assert sorted(path.name for path in lab.target.iterdir()) == ["m.h5", "manifest.json"]


def test_the_whole_working_directory_is_brought_by_a_name_of_its_own(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.host.writes(CHIEF, "a/m.h5", b"weights")
    brought = copy_path(lab.context, ".")
    assert (brought.at, brought.files, brought.size) == (lab.target / "work", 1, 7)
    moved = [one for one in lab.report.events if isinstance(one, Transferred)]
    assert moved == [Transferred("worker/0", 7, 0)], "nobody knows how much there is"
    assert (lab.target / "work" / "a" / "m.h5").read_bytes() == b"weights"
    assert (lab.play("down"), lab.left) == ("", []), "all that it wrote was brought"


@pytest.mark.parametrize("name", ["m.h5", ".before", "a.before"])
def test_a_file_and_a_directory_replace_each_other(tmp_path: Path, name: str) -> None:
    lab = Lab(tmp_path)
    for number, file in enumerate([name, name, f"{name}/weights", f"{name}/weights", name]):
        lab.host.places[CHIEF].written.clear()
        lab.host.writes(CHIEF, file, b"%d" % number)
        copy_path(lab.context, name)
        assert (lab.target / file).read_bytes() == b"%d" % number
    assert sorted(path.name for path in lab.target.iterdir()) == sorted([name, "manifest.json"])


def test_an_earlier_run_is_set_aside(tmp_path: Path) -> None:
    first, second = Lab(tmp_path), Lab(tmp_path)
    first.host.writes(CHIEF, "m.h5", b"first")
    second.host.writes(CHIEF, "m.h5", b"second")
    copy_path(first.context, "m.h5")
    assert first.report.awaited == ["bringing m.h5 from worker/0", ""]
    copy_path(second.context, "m.h5")
    assert (tmp_path / "lab.1" / "m.h5").read_bytes() == b"first"
    assert (tmp_path / "lab" / "m.h5").read_bytes() == b"second"
    assert json.loads((tmp_path / "lab" / "manifest.json").read_text())["paths"] == {"m.h5": "m.h5"}


ENDED = Observed(CHIEF, "h2", State.EXITED, {}, exit_code=0)
KEPT = "worker/0 on h2 is kept"
NOTHING = "no checkpoint lies in TFPROV_CHECKPOINT_DIR (/c)"
DISCARD = "or remove it for good with `tfprov down --discard`"


@pytest.mark.parametrize(
    ("models", "kept", "hint"),
    [
        ({"unsaved": ("a.h5",)}, f"{KEPT}: a.h5 is not gathered; run `tfprov gather`, {DISCARD}", ""),
        (
            {"elsewhere": ("a b.h5",)},
            (
                f"{KEPT}: {NOTHING}, and it has written a b.h5; "
                f"bring it with `tfprov gather --path 'a b.h5'` and run this again, {DISCARD}"
            ),
            "worker/0 has written a b.h5: `tfprov gather --path 'a b.h5'` brings it",
        ),
        (
            {"elsewhere": ("a", "b", "c", "d"), "gathered": True},
            (
                f"{KEPT}: it has written a, b, c and 1 more outside of TFPROV_CHECKPOINT_DIR (/c); "
                f"bring each with `tfprov gather --path a` and run this again, {DISCARD}"
            ),
            "worker/0 has written a, b, c and 1 more: `tfprov gather --path a` brings the first of them",
        ),
    ],
)
def test_a_model_that_was_not_gathered_is_named_with_the_command_that_brings_it(
    models: dict[str, Any], kept: str, hint: str
) -> None:
    nothing = NothingSaved(ENDED, "/c", **models)
    assert str(nothing.kept()) == kept
    assert not hint or nothing.hint() == hint
    assert nothing.holds_model


def test_an_end_without_a_checkpoint_has_both_remedies() -> None:
    fix = "save there, or set `checkpoints: none` for a program that saves nothing"
    ended = f"worker/0 has ended: {NOTHING}, and"
    assert str(NothingSaved(ENDED, "/c").ended()) == f"{ended} nothing that it wrote looks like a model; {fix}"
    staying = NothingSaved(ENDED, "/c", staying=("/srv/a.h5",))
    assert str(staying.ended()) == f"{ended} it has written /srv/a.h5, which stays on h2; {fix}"
    assert not staying.holds_model


OUT = "has `..` in it; name what lies in the chief's working directory, or an absolute path"
NAMELESS = "`--path` names nothing; for example `--path output/model.keras`"


@pytest.mark.parametrize("path", ["../worker-1", "a/../../b", "..", "", " ", "a\0b"])
def test_a_path_that_leads_out_is_refused(path: str) -> None:
    with pytest.raises(Usage) as caught:
        check_path(path)
    assert str(caught.value) == (f"`--path {path}` {OUT}" if ".." in path else NAMELESS)


def test_a_final_model_beside_gathered_checkpoints_is_brought_before_the_chief_is_removed(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    for path in NINE:
        lab.host.saves(CHIEF, path, b"weights")
    lab.host.writes(CHIEF, "final.keras", b"model")
    assert "outside of TFPROV_CHECKPOINT_DIR" in lab.play("run", 0)
    copy_path(lab.context, "final.keras")
    assert lab.play("down") == ""
    assert lab.left == []
    assert {"final.keras", *NINE} <= {path.name for path in lab.target.iterdir()}


def test_an_ended_chief_with_a_final_model_does_not_start_again_before_its_checkpoint_is_gathered(
    tmp_path: Path,
) -> None:
    lab = Lab(tmp_path)
    for path in NINE:
        lab.host.saves(CHIEF, path, b"weights")
    lab.host.writes(CHIEF, "final.keras", b"model")
    lab.host.exits(CHIEF, 0)
    elsewhere = {"here": INVENTORY, "on another host": INVENTORY.replace("h2", "h3")}
    for where, inventory in elsewhere.items():
        edited = make_context(inventory, ["tfprov.flags.rate=0.5"], lab.hosts)
        lab.context = replace(edited, target=lab.target, report=lab.report, verify=lambda _: {}, home=tmp_path)
        assert lab.play("up") == KEPT_TOO.format("final.keras", "final.keras"), where
        assert lab.host.places[CHIEF].written.keys() == {"final.keras"}, where
    copy_path(lab.context, "final.keras")
    assert lab.play("up") == ""
    assert lab.host.places.keys() == set(), "the chief has moved"


def test_an_ended_chief_with_a_checkpoint_alone_starts_again(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    for path in (*NINE, "checkpoint"):
        lab.host.saves(CHIEF, path, b"weights")
    assert lab.play("up", 1) == ""
    assert lab.host.places[CHIEF].runs


def test_a_path_that_cannot_be_copied_leaves_a_link_to_an_empty_directory_in_its_place(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    (tmp_path / "disk").mkdir()
    lab.target.symlink_to("disk")
    lab.host.writes(CHIEF, "manifest.json", b"{}")
    with pytest.raises(GatherError, match="is a name that `gather` needs"):
        copy_path(lab.context, "manifest.json")
    assert lab.target.is_symlink()


def test_a_directory_of_links_brings_nothing(tmp_path: Path) -> None:
    class Linking(MemoryOutsideFiles):
        """A directory with nothing but links."""

        def tree(self, _task: str, path: str) -> Tree:
            return Tree(path, iter(()))

    lab = Lab(tmp_path)
    lab.host.outside = Linking(lab.host.places, lambda: None)
    with pytest.raises(GatherError) as caught:
        copy_path(lab.context, "out")
    assert str(caught.value) == ("out of worker/0 holds no regular file; links are not brought: name what they lead to")
    assert not lab.target.exists()


def test_models_are_known_by_their_names() -> None:
    files = {
        "a.keras": "a.keras",
        "b/c.weights.h5": "b/c.weights.h5",
        "b/notes.txt": None,
        "x.index": None,
        "e/saved_model.pb": "e",
        "e/variables/variables.index": "e",
        "e/variables/variables.data-00000-of-00001": "e",
        "f/model.ckpt-1.index": "f",
        "f/model.ckpt-1.data-00000-of-00002": "f",
        "f/checkpoint": "f",
        "f/model.ckpt-1.meta": None,
        "g.ckpt": "g.ckpt",
        "h/model-00001-of-00002.safetensors": "h/model-00001-of-00002.safetensors",
        "h/model.tflite": "h/model.tflite",
        "h/model.onnx": "h/model.onnx",
        "orbax/10/_CHECKPOINT_METADATA": "orbax/10",
        "orbax/10/default/manifest.ocdbt": "orbax/10",
        "orbax/10/default/d/0a1b": None,
        "single/manifest.ocdbt": "single",
        "i/model.hdf5": "i/model.hdf5",
        "i/model.pt": "i/model.pt",
        "i/model.npz": "i/model.npz",
        "j/saved_model.pbtxt": "j",
        ".keras/datasets/mnist.npz": None,
        **{f"{cache}/m.keras": None for cache in (".cache", ".git", ".ipynb_checkpoints", ".local", ".venv")},
        "/opt/site-packages/keras/w.h5": None,
        "/tmp/tfhub_modules/0a1b/saved_model.pb": None,
        "/x.pth": "/x.pth",
    }
    assert model_files(files) == sorted(name for name, root in files.items() if root)
    assert model_roots(model_files(files)) == sorted({root for root in files.values() if root})
    assert model_roots(["checkpoint", "a/b.pt"]) == ["."], "it lies in the working directory itself"


def test_the_home_directory_is_searched_as_far_as_its_files_stay_there(tmp_path: Path) -> None:
    home, bench = tmp_path / "home", ProcessBench(tmp_path / "state")
    try:
        for path in ("old.h5", ".cache/new.h5"):
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_bytes(b"weights")
        os.utime(home / "old.h5", (1, 1))
        flag = f"--train_dir={tmp_path / 'logs'}"
        bench.start(container(argv=["sleep", "3600", flag], env={"HOME": str(home)}))
        for path in ("home/out/new.h5", "logs/new.pt", "elsewhere/new.pt"):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_bytes(b"weights")
        bench.write("worker/0", "new.npz", b"weights")
        models = bench.runtime.outside.written("worker/0", model_files)
        assert {path: file.lasting for path, file in models.items()} == {
            "new.npz": False,
            str(tmp_path / "home/out/new.h5"): True,
            str(tmp_path / "logs/new.pt"): True,
        }
        long = tmp_path / "home" / ("a long directory" * 5) / "new.h5"
        with pytest.raises(
            HostError,
            match=rf"^h: .* is not in the working directory of worker/0; copy {re.escape(str(long))} yourself$",
        ):
            bench.runtime.outside.tree("worker/0", str(long))
        bench.write("worker/0", "a\nb", b"")
        with pytest.raises(
            HostError,
            match=r"^h: no such file or directory in the working directory of worker/0: no\\npe; there is a\\nb, "
            r"new\.npz$",
        ):  # on one line
            bench.runtime.outside.tree("worker/0", "no\npe")
        with pytest.raises(HostError, match=r"^h: no such command: nope; correct the command behind `--`$"):
            bench.runtime.execute("worker/0", ["nope"])
    finally:
        bench.close()
