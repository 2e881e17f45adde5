"""The scripts of `.ci/` install what the tests need: they wait for another apt, and fail where nothing may be left out."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT

TOOLS = ("sh", "env", "date", "dirname", "grep", "tail", "id")
LISTS = "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)"
ARCHIVES = "E: Could not get lock /var/cache/apt/archives/lock. It is held by process 4711 (apt-get)"
FRONTEND = "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?"
INSTALL = f'. {ROOT}/.ci/apt.sh; apt_install hello; code=$?; apt_error; exit "$code"'


class Machine:
    """A PATH with a few tools, a `sleep` that only counts, and an apt-get that fails as often as a test wants."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in TOOLS:
            (directory / name).symlink_to(shutil.which(name) or "")
        self.program("sudo", 'shift; exec "$@"')
        self.program("sleep", f"echo slept >>{directory}/sleeps")

    def program(self, name: str, text: str) -> None:
        """Put a program of one line into the PATH."""
        (self.directory / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.directory / name).chmod(0o755)

    def apt_get(self, *complaints: str) -> None:
        """Make an apt-get that fails with each of `complaints` in turn, and then works."""
        for number, complaint in enumerate(complaints, 1):
            (self.directory / f"complaint{number}").write_text(f"Reading package lists...\n{complaint}\n")
        count = f"$(($(tail -n 1 {self.directory}/calls | cut -d: -f1) + 1))"
        (self.directory / "calls").write_text("0:\n")
        (self.directory / "cut").symlink_to(shutil.which("cut") or "")
        (self.directory / "cat").symlink_to(shutil.which("cat") or "")
        self.program(
            "apt-get",
            f'number={count}; echo "$number:$*" >>{self.directory}/calls; complaint={self.directory}/complaint$number; '
            '[ ! -e "$complaint" ] || { cat "$complaint" >&2; exit 100; }',
        )

    @property
    def calls(self) -> list[str]:
        """What apt-get was called with, but for the options in front."""
        lines = (self.directory / "calls").read_text().splitlines()[1:]
        return [line.partition("Lock::Timeout=")[2].partition(" ")[2] for line in lines]

    @property
    def sleeps(self) -> int:
        path = self.directory / "sleeps"
        return path.read_text().count("slept") if path.exists() else 0

    def __call__(self, *command: str, **env: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command, env={"PATH": str(self.directory), **env}, capture_output=True, text=True, check=False
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("lock", [LISTS, ARCHIVES, FRONTEND], ids=["lists", "archives", "frontend"])
def test_the_locks_of_another_apt_are_waited_for(machine: Machine, lock: str) -> None:
    machine.apt_get(lock, lock, "", lock)  # the third call is the update that works
    (machine.directory / "complaint3").unlink()
    done = machine("sh", "-c", INSTALL)
    assert done.returncode == 0, done.stdout
    assert machine.calls == [*["update"] * 3, *["install -y --no-install-recommends hello"] * 2]
    assert machine.sleeps == 3


def test_a_lock_that_is_never_released_is_an_error_in_the_end(machine: Machine) -> None:
    machine.apt_get(LISTS)
    done = machine("sh", "-c", INSTALL, APT_PATIENCE="0")
    assert (done.returncode, done.stdout) == (1, f"{LISTS}\n")


def test_what_no_waiting_mends_is_an_error_at_once(machine: Machine) -> None:
    machine.apt_get("E: Unable to locate package hello")
    done = machine("sh", "-c", INSTALL)
    assert (done.returncode, done.stdout) == (1, "E: Unable to locate package hello\n")
    assert machine.sleeps == 0


def test_the_browser_is_installed_after_a_lock_was_waited_for(machine: Machine) -> None:
    machine.apt_get(LISTS)
    assert machine("sh", str(ROOT / ".ci" / "browser.sh")).returncode == 0
    wanted = "install -y --no-install-recommends fonts-liberation chromium-headless-shell"
    assert machine.calls == ["update", "update", wanted]


@pytest.mark.parametrize(
    ("script", "variable"),
    [
        ("engine.sh", "TFPROV_TESTS_ENGINE"),
        ("browser.sh", "TFPROV_TESTS_BROWSER"),
        ("java.sh", "TFPROV_TESTS_JAVA"),
        ("shells.sh", "TFPROV_TESTS_SHELLS"),
    ],
)
def test_what_cannot_be_installed_is_a_note_and_an_error_where_it_is_required(
    machine: Machine, script: str, variable: str
) -> None:
    """There is no apt-get on this machine."""
    path = str(ROOT / ".ci" / script)
    done = machine("sh", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("note: the test")
    done = machine("sh", path, **{variable: "required"})
    assert (done.returncode, done.stdout) == (1, "")
    assert " required, and cannot run: install" in done.stderr
