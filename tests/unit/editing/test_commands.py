"""The commands that edit an inventory: what they write, print and refuse."""

import errno
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.command_output import CommandResult, run_command
from tests.support.paths import CASES
from tfprov.atomic_write import rewrite
from tfprov.editing.files import write_texts
from tfprov.errors import Usage
from tfprov.settings.load import load

GOOD = """\
all:
  vars:
    tfprov: {cluster: lab, image: {name: train}, command: [python, train.py]}
  children:
    ps:
      hosts:
        node1:
    worker:
      hosts:
        node2:   # the first
"""


@pytest.fixture(autouse=True)
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TFPROV_INVENTORY", raising=False)
    path = Path("inventory.yml")
    path.write_text(GOOD)
    return path


def edit(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    result = run_command(capsys, "inventory", *argv)
    assert (result.code, result.lines) == (0, ())
    return result.out


def test_what_an_alias_changes_too_is_printed(capsys: pytest.CaptureFixture[str], inventory: Path) -> None:
    lab = "    tfprov: {cluster: lab, image: {build: ., build_on: node2}, command: [python, train.py]}\n    a: &a {b: 1}\n"
    inventory.write_text(re.sub("    tfprov.*\n", lab + "    c: *a\n    d: *a\n", GOOD))
    Path("Dockerfile").write_text("FROM tensorflow\n")
    assert edit(capsys, "set", "a.b", "2") == (
        "set a.b of group all (inventory.yml:4, and with it lines 5, 6, by alias)\n"
    )
    assert edit(capsys, "unset", "a.b") == (
        "removed a.b of group all (inventory.yml:4, and with it lines 5, 6, by alias)\n"
    )
    assert edit(capsys, "unset", "c") == "removed c of group all (inventory.yml:5)\n"
    assert edit(capsys, "set", "a.b", "2") == "set a.b of group all (inventory.yml:4, and with it line 5, by alias)\n"
    assert edit(capsys, "move-host", "node2", "node3") == (
        "moved node2 to node3 in worker (inventory.yml:12), in image.build_on (inventory.yml:3)\n"
    )


def test_an_empty_file_of_variables_hides_none_of_those_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    directory = Path("group_vars", "worker")
    directory.mkdir(parents=True)
    (directory / "10.yml").write_text("# nothing yet\n")
    (directory / "20.yml").write_text("a: 1\n")
    assert edit(capsys, "set", "--group", "worker", "a", "2") == (
        "set a of group_vars/worker (group_vars/worker/20.yml:1)\n"
    )


@pytest.mark.parametrize("quote", ["'", '"', ""])
def test_a_new_key_has_the_quotes_of_the_one_before_it(
    capsys: pytest.CaptureFixture[str], inventory: Path, quote: str
) -> None:
    before = f"        {quote}node2{quote}:\n"
    inventory.write_text(GOOD.replace("        node2:   # the first\n", before))
    edit(capsys, "add-host", "node3", "-g", "worker")
    assert inventory.read_text().endswith(f"{before}        {quote}node3{quote}:\n")


def test_a_file_without_a_last_line_break_gets_none(capsys: pytest.CaptureFixture[str], inventory: Path) -> None:
    for before in ("a: b", "a: |-\n            b", "a:\n            - b"):
        inventory.write_text(GOOD.replace("   # the first\n", f"\n          {before}"))
        edit(capsys, "set", "--host", "node2", "a", "- c\n- d")
        assert inventory.read_text().endswith("\n            - c\n            - d"), before


def test_an_entry_before_a_comment_is_not_cut_out_of_its_line(
    capsys: pytest.CaptureFixture[str], inventory: Path
) -> None:
    inventory.write_text(GOOD.replace("  children:", "    steps:\n      - a: 1   # why\n        b: 2\n  children:", 1))
    (line,) = run_command(capsys, "inventory", "unset", "steps[0].a").lines
    assert line == (
        "inventory.yml:5:9: error: this cannot be changed without changing more of the text: there is a comment after it; "
        "edit the file by hand"
    )


def test_every_command_prints_what_it_changed(capsys: pytest.CaptureFixture[str]) -> None:
    assert edit(capsys, "add-host", "node3", "-g", "worker", "-g", "ps") == (
        "added node3 to worker (inventory.yml:11), to ps (inventory.yml:8)\n"
    )
    assert edit(capsys, "move-host", "node3", "node4") == (
        "moved node3 to node4 in ps (inventory.yml:8), in worker (inventory.yml:12)\n"
    )
    assert edit(capsys, "set", "tfprov.port", "2300") == "set tfprov.port of group all (inventory.yml:3)\n"
    assert edit(capsys, "set", "--host", "node2", "a.b", "x") == "set a.b of host node2 (inventory.yml:12)\n"
    assert edit(capsys, "unset", "--host", "node2", "a.b") == "removed a.b of host node2 (inventory.yml:13)\n"
    assert edit(capsys, "remove-host", "node4") == (
        "removed node4 from ps (inventory.yml:8), from worker (inventory.yml:12)\n"
    )


def test_an_edit_without_a_change_writes_nothing(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = inventory.stat()
    assert edit(capsys, "set", "tfprov.cluster", "lab").startswith("nothing to do: tfprov.cluster of group all")
    assert inventory.stat().st_ino == before.st_ino


def test_check_writes_nothing_and_diff_shows(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = edit(capsys, "add-host", "node3", "-g", "worker", "--check", "--diff")
    assert out == (
        "--- inventory.yml (before)\n+++ inventory.yml (after)\n@@ -8,3 +8,4 @@\n     worker:\n       hosts:\n"
        "         node2:   # the first\n+        node3:\n"
        "added node3 to worker (inventory.yml:11); not written (--check)\n"
    )
    assert inventory.read_text() == GOOD


def test_a_diff_shows_no_password(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secrets = "    ansible_password: hunter2\n    WANDB_API_KEY: hunter4\n"
    inventory.write_text(GOOD.replace("  vars:\n", f"  vars:\n{secrets}"))
    out = edit(capsys, "set", "other", "1", "--diff")
    assert "ansible_password…" in out
    assert "WANDB_API_KEY…" in out
    assert "hunter2" not in out
    out = edit(capsys, "set", "ansible_password", "hunter3", "--diff")
    assert "hunter" not in out
    assert "hunter3" in inventory.read_text()


@pytest.mark.parametrize(
    "argv", [["set", "ansible_password", "012345"], ["add-host", "n", "-g", "ps", "--var", "my_token=012345"]]
)
def test_the_error_for_a_password_does_not_show_it(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    result = run_command(capsys, "inventory", *argv)
    assert result.code == 2
    assert "quote it" in result.lines[0]
    assert "012345" not in result.lines[0]


def test_json_stays_json(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (CASES / "edit" / "json.yml").read_text()
    inventory.write_text(text)
    edit(capsys, "add-host", "node4", "-g", "worker", "--var", "ansible_host=192.0.2.4")
    edit(capsys, "add-host", "node5", "-g", "worker")
    edit(capsys, "set", "tfprov.flags.rate", "0.5")
    edit(capsys, "set", "tfprov.mounts", "[{source: /a, target: /b}]")
    loaded = json.loads(inventory.read_text())["all"]
    assert loaded["children"]["worker"]["hosts"]["node4"] == {"ansible_host": "192.0.2.4"}
    assert loaded["vars"]["tfprov"]["mounts"] == [{"source": "/a", "target": "/b"}]
    for argv in (
        ["unset", "tfprov.mounts"],
        ["unset", "tfprov.flags.rate"],
        ["remove-host", "node5"],
        ["remove-host", "node4"],
    ):
        edit(capsys, *argv)
    assert inventory.read_text() == text


def test_a_member_of_a_range_gets_an_entry_of_its_own(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory.write_text(GOOD.replace("node2:", "node[2:5]:"))
    assert edit(capsys, "set", "--host", "node4", "tfprov.port", "2400") == (
        "set tfprov.port of host node4 (inventory.yml:11)\n"
    )
    loaded, _ = load(inventory)
    assert loaded.members("worker") == ("node2", "node3", "node4", "node5")
    assert "        node4:\n          tfprov:\n            port: 2400\n" in inventory.read_text()


def test_a_new_role_is_added(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(capsys, "add-host", "node2", "-g", "evaluator")
    assert inventory.read_text() == GOOD + "    evaluator:\n      hosts:\n        node2:\n"


def test_a_group_without_its_last_host_has_an_empty_list_of_hosts(
    inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory.write_text(GOOD + "    spare:\n      hosts:\n        node9:\n")
    edit(capsys, "remove-host", "node9")
    assert inventory.read_text() == GOOD + "    spare:\n      hosts:\n"


# -- vars files, and several sources ----------------------------------------------------------------------------------


def test_a_value_is_set_where_it_takes_effect(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("group_vars").mkdir()
    beside = Path("group_vars/worker.yml")
    beside.write_text("# of workers\ntfprov:\n  port: 2400   # theirs\n")
    assert edit(capsys, "set", "--group", "worker", "tfprov.port", "2500") == (
        "set tfprov.port of group_vars/worker (group_vars/worker.yml:3)\n"
    )
    assert beside.read_text() == "# of workers\ntfprov:\n  port: 2500   # theirs\n"
    edit(capsys, "set", "--group", "worker", "tfprov.pids", "100")
    assert beside.read_text() == "# of workers\ntfprov:\n  port: 2500   # theirs\n  pids: 100\n"
    assert inventory.read_text() == GOOD


TWICE = GOOD.replace("[python, train.py]}", "[python, train.py], port: 3000}").replace(
    "        node2:   # the first\n",
    "        node2: {tfprov: {port: 3002}}\n        node3:\n      vars: {tfprov: {port: 3001}}\n",
)
"""Settings of all, of a group and of a host, each of which a file beside the inventory can hide."""


@pytest.mark.parametrize(
    ("place", "file"),
    [
        ((), "group_vars/all.yml"),
        (("--group", "worker"), "group_vars/worker.yml"),
        (("--host", "node2"), "host_vars/node2.yml"),
    ],
)
def test_of_two_values_the_one_in_force_is_edited(
    place: tuple[str, ...], file: str, inventory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory.write_text(TWICE)
    beside = Path(file)
    beside.parent.mkdir()
    beside.write_text("tfprov: {port: 4000, pids: 100}\n")
    owner = file.removesuffix(".yml")
    assert edit(capsys, "set", *place, "tfprov.port", "5000") == f"set tfprov.port of {owner} ({file}:1)\n"
    assert beside.read_text() == "tfprov: {port: 5000, pids: 100}\n"
    assert edit(capsys, "unset", *place, "tfprov.port") == f"removed tfprov.port of {owner} ({file}:1)\n"
    assert (beside.read_text(), inventory.read_text()) == ("tfprov: {pids: 100}\n", TWICE)
    name = place[-1] if place else "all"
    kind = "host" if "--host" in place else "group"
    assert edit(capsys, "unset", *place, "tfprov.port").startswith(
        f"removed tfprov.port of {kind} {name} (inventory.yml"
    )


def test_host_vars_files_are_reported_and_never_moved(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("host_vars").mkdir()
    Path("host_vars/node2.yml").write_text("a: 1\n")
    message = "error: host_vars/node2.yml holds variables of node2, which node9 would not have; "
    message += "first `mv host_vars/node2.yml host_vars/node9.yml`"
    assert run_command(capsys, "inventory", "move-host", "node2", "node9") == CommandResult(2, (message,))
    assert inventory.read_text() == GOOD
    edit(capsys, "add-host", "node3", "-g", "worker")
    assert edit(capsys, "remove-host", "node2").splitlines()[1:] == [
        "note: host_vars/node2.yml stays, and is not read any more"
    ]
    assert Path("host_vars/node2.yml").read_text() == "a: 1\n"


def test_a_directory_of_inventories_is_edited(capsys: pytest.CaptureFixture[str]) -> None:
    Path("lab").mkdir()
    Path("lab/1-hosts.yml").write_text(GOOD)
    Path("lab/2-more.yml").write_text("worker:\n  vars:\n    tfprov: {port: 2300}\n")
    Path("lab/3-old.ini").write_text("[spare]\nold1\n")
    assert "(lab/2-more.yml:3)" in edit(capsys, "set", "--group", "worker", "tfprov.port", "2400", "-i", "lab")
    assert "(lab/1-hosts.yml:11)" in edit(capsys, "add-host", "node3", "-g", "worker", "-i", "lab")
    assert "(lab/1-hosts.yml:3)" in edit(capsys, "set", "tfprov.pids", "100", "-i", "lab")
    result = run_command(capsys, "inventory", "remove-host", "old1", "-i", "lab")
    assert result.code == 2
    assert result.lines[0].startswith("lab/3-old.ini:2")
    result = run_command(capsys, "inventory", "set", "--group", "spare", "a", "1", "-i", "lab")
    message = "error: group `spare` is in no YAML file, and tfprov edits no others; "
    assert result.lines == (message + "write group_vars/spare.yml beside lab/3-old.ini",)
    assert Path("lab/3-old.ini").read_text() == "[spare]\nold1\n"


def test_set_reads_the_inventory_once(capsys: pytest.CaptureFixture[str]) -> None:
    script = Path("hosts.sh")
    script.write_text('#!/bin/sh\necho run >> runs\necho \'{"_meta": {"hostvars": {}}, "spare": {"hosts": ["s1"]}}\'\n')
    script.chmod(0o755)
    edit(capsys, "set", "tfprov.port", "2300", "-i", "inventory.yml", "-i", "hosts.sh")
    assert Path("runs").read_text() == "run\n"


def test_vars_files_are_edited_for_groups_of_the_inventory_only(capsys: pytest.CaptureFixture[str]) -> None:
    Path("hosts.ini").write_text("[spare]\nold1\n")
    Path("group_vars").mkdir()
    for name in ("spare", "gone"):
        Path(f"group_vars/{name}.yml").write_text("a: 1\n")
    Path("group_vars/all.yml").write_text("$ANSIBLE_VAULT;1.1;AES256\n")
    sources = ("-i", "inventory.yml", "-i", "hosts.ini")
    assert edit(capsys, "set", "--group", "spare", "a", "2", *sources).splitlines()[0] == (
        "set a of group_vars/spare (group_vars/spare.yml:1)"
    )
    answer = run_command(capsys, "inventory", "set", "--group", "gone", "a", "2")
    assert answer.lines == ("error: no group `gone` in the inventory; see `tfprov inventory graph`",)
    assert Path("group_vars/gone.yml").read_text() == "a: 1\n"


def test_a_source_may_be_named_by_any_path(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, source in enumerate(("./inventory.yml", str(inventory.absolute()), ".")):
        edit(capsys, "set", "tfprov.port", f"23{number:02}", "-i", source)
        assert f"port: 23{number:02}" in inventory.read_text()


def test_an_ini_inventory_is_not_edited(capsys: pytest.CaptureFixture[str]) -> None:
    Path("hosts.ini").write_text("[worker]\nnode1\n")
    assert run_command(capsys, "inventory", "add-host", "n", "-g", "worker", "-i", "hosts.ini").lines == (
        "error: hosts.ini is no YAML file, and tfprov edits no others; edit it by hand",
    )


def test_a_host_of_two_sources_is_not_removed_from_one(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("more.ini").write_text("[spare]\nnode2\n")
    edit(capsys, "add-host", "node3", "-g", "worker")
    before = inventory.read_text()
    result = run_command(capsys, "inventory", "remove-host", "node2", "-i", "inventory.yml", "-i", "more.ini")
    assert result.code == 2
    assert result.lines[0].startswith("more.ini:2")
    assert inventory.read_text() == before


def test_extra_vars_count_for_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(capsys, "inventory", "unset", "tfprov.cluster").code == 2
    edit(capsys, "unset", "tfprov.cluster", "-e", "tfprov.cluster=other")


# -- the file -----------------------------------------------------------------------------------------------------------


def test_file_mode_and_symlinks_are_kept(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inventory.rename("real.yml")
    inventory.symlink_to("real.yml")
    Path("real.yml").chmod(0o640)
    edit(capsys, "add-host", "node3", "-g", "worker")
    assert inventory.is_symlink()
    assert stat.S_IMODE(Path("real.yml").stat().st_mode) == 0o640
    assert "node3" in Path("real.yml").read_text()
    assert sorted(path.name for path in Path().iterdir()) == ["inventory.yml", "real.yml"]


def test_a_file_with_two_hard_links_is_not_edited(inventory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.link(inventory, "other.yml")
    message = "error: inventory.yml is left as it is: it has 2 names (hard links), and only one would have the change; "
    assert run_command(capsys, "inventory", "add-host", "node3", "-g", "worker").lines == (
        message + "edit a file of your own in its place",
    )
    assert inventory.read_text() == GOOD


def test_a_file_that_changed_meanwhile_is_not_overwritten(inventory: Path) -> None:
    with pytest.raises(OSError, match="changed by another process"):
        rewrite(inventory, b"what it was", b"what it would be")
    assert inventory.read_text() == GOOD
    assert [path.name for path in Path().iterdir()] == ["inventory.yml"]


BOTH = ("-i", "inventory.yml", "-i", "second.yml")
MORE = "spare:\n  hosts:\n    node2:\n"


@pytest.fixture
def second() -> Path:
    """Return a second inventory, which names a host of the first."""
    path = Path("second.yml")
    path.write_text(MORE)
    return path


def test_of_two_files_none_is_edited_if_one_cannot_be(
    inventory: Path, second: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.link(second, "other.yml")
    before = inventory.stat()
    message = (
        "error: second.yml is left as it is, and so are the others: it has 2 names (hard links), and only one would"
    )
    message += " have the change; edit a file of your own in its place"
    for argv in (("move-host", "node2", "node9"), ("add-host", "node3", "-g", "worker", "-g", "spare")):
        assert run_command(capsys, "inventory", *argv, *BOTH).lines == (message,)
    assert (inventory.stat().st_ino, inventory.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert (inventory.read_text(), second.read_text()) == (GOOD, MORE)
    Path("other.yml").unlink()
    edit(capsys, "move-host", "node2", "node9", *BOTH)
    assert "node9" in inventory.read_text()
    assert "node9" in second.read_text()
    assert sorted(path.name for path in Path().iterdir()) == ["inventory.yml", "second.yml"]


def test_of_two_files_none_is_written_if_one_changed_meanwhile(inventory: Path, second: Path) -> None:
    before = inventory.stat()
    with pytest.raises(Usage, match=r"^second.yml is left as it is, and so are the others: it was changed by another"):
        write_texts({"inventory.yml": (GOOD, "new"), "second.yml": ("what it was", "new")})
    assert inventory.stat().st_ino == before.st_ino
    assert (inventory.read_text(), second.read_text()) == (GOOD, MORE)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_file_that_was_written_before_an_error_gets_its_text_back(
    error: BaseException, inventory: Path, second: Path
) -> None:
    seen: list[str] = []

    def fail(path: Path, before: bytes, data: bytes) -> None:
        rewrite(path, before, data)
        if path == second:  # as if the flush of its directory failed
            seen.append(inventory.read_text())
            raise error

    with pytest.raises((Usage, KeyboardInterrupt)) as raised:
        write_texts({"inventory.yml": (GOOD, "new"), "second.yml": (MORE, "newer")}, fail)
    if isinstance(error, OSError):
        what = "second.yml is left as it is, and so are the others: no space left on device"
        assert str(raised.value).startswith(what)
    assert seen[0] == "new"
    assert (inventory.read_text(), second.read_text()) == (GOOD, MORE)


@pytest.mark.parametrize("theirs", ["theirs", None], ids=["changed", "removed"])
def test_a_file_that_another_process_changed_after_it_was_written_is_not_put_back(
    theirs: str | None, inventory: Path, second: Path
) -> None:
    def fail(path: Path, before: bytes, data: bytes) -> None:
        if path == second and before != data:
            inventory.unlink()
            if theirs is not None:
                inventory.write_text(theirs)
            raise OSError(errno.ENOSPC, "No space left on device")
        rewrite(path, before, data)

    with pytest.raises(Usage) as raised:
        write_texts({"inventory.yml": (GOOD, "new"), "second.yml": (MORE, "newer")}, fail)
    assert str(raised.value) == (
        "second.yml is left as it is, and inventory.yml changed already: no space left on device; "
        "edit a file of your own in its place"
    )
    left = inventory.read_text() if inventory.exists() else None
    assert (left, second.read_text()) == (theirs, MORE)


SPIN = """
import sys
from pathlib import Path
from tfprov.atomic_write import rewrite
path, texts = Path(sys.argv[1]), [bytes([65 + n]) * 2_000_000 for n in range(2)]
print("go", flush=True)
for n in range(1_000_000):
    rewrite(path, path.read_bytes(), texts[n % 2])
"""


def test_the_file_is_whole_after_a_kill_at_any_time(tmp_path: Path) -> None:
    path = tmp_path / "big.yml"
    path.write_bytes(b"A" * 2_000_000)
    for delay in (0.0, 0.01, 0.02, 0.03, 0.05):
        process = subprocess.Popen([sys.executable, "-c", SPIN, str(path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert path.read_bytes() in (b"A" * 2_000_000, b"B" * 2_000_000)
