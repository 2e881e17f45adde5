"""The scripts of `.ci/` install what the tests need: they wait for another apt, and fail where nothing may be left out."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
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


MAKES_AN_ENVIRONMENT = """
[ -x "$2/bin/python" ] || "$1" -m venv --without-pip "$2"
pip=$(echo "$2"/lib/python3*/site-packages)/pip
mkdir -p "$pip"
cat >"$pip/__main__.py" <<END
import pathlib, sys, sysconfig
with open(pathlib.Path("installs"), "a") as file:
    print(*sys.argv[1:], file=file)
program = pathlib.Path(sysconfig.get_path("scripts"), "program")
program.write_text("#!" + sys.executable + "\\nimport sys; print(sys.prefix)")
program.chmod(0o755)
END
"""
"""A `venv.sh` whose pip installs one program, and writes its own arguments into the file `installs`."""


class Clone:
    """A clone of the project with its `.ci/packages.sh`, and the cache of the user."""

    def __init__(self, directory: Path, cache: Path) -> None:
        self.directory, self.cache = directory, cache
        (directory / ".ci").mkdir(parents=True)
        (directory / "locks").mkdir()
        shutil.copy(ROOT / ".ci" / "packages.sh", directory / ".ci")
        (directory / ".ci" / "venv.sh").write_text(MAKES_AN_ENVIRONMENT)
        (directory / "locks" / "dev.txt").write_text("-r demo.txt\n")
        (directory / "locks" / "demo.txt").write_text("rich==1\n")

    def install(self) -> str:
        """Make the environment, and return what its program prints."""
        script = ["sh", ".ci/packages.sh", sys.executable, "environment", "locks/dev.txt"]
        env = {**os.environ, "XDG_CACHE_HOME": str(self.cache)}
        done = subprocess.run(script, cwd=self.directory, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        command = [str(self.environment / "bin" / "program")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    @property
    def environment(self) -> Path:
        return self.directory / "environment"

    @property
    def installs(self) -> list[str]:
        """What pip was called with."""
        file = self.directory / "installs"
        return file.read_text().splitlines() if file.exists() else []


INSTALL_LOCKED = "install --quiet --disable-pip-version-check --no-deps --require-hashes -r locks/dev.txt"


@pytest.fixture
def clone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Clone]:
    directory = tmp_path_factory.mktemp("c")  # a short path, whatever the name of the test
    return lambda name: Clone(directory / name, directory / "cache")


def test_a_new_environment_is_made_of_what_pip_has_installed_for_another(clone: Callable[[str], Clone]) -> None:
    first, second = clone("first"), clone("second")
    assert first.install() == str(first.environment)
    assert first.installs == [INSTALL_LOCKED]
    assert second.install() == str(second.environment)
    assert second.installs == []
    assert sorted(path.name for path in second.environment.iterdir()) == sorted(
        path.name for path in first.environment.iterdir()
    )
    assert first.install() == str(first.environment), "and the other one is as it was"


def test_each_lock_file_has_an_environment_of_its_own(clone: Callable[[str], Clone]) -> None:
    first, second = clone("first"), clone("second")
    first.install()
    (second.directory / "locks" / "demo.txt").write_text("rich==2\n")
    second.install()
    assert second.installs == [INSTALL_LOCKED]


def test_an_environment_that_exists_is_completed_by_pip(clone: Callable[[str], Clone]) -> None:
    first = clone("first")
    first.install()
    (first.environment / "own").write_text("of the user")
    first.install()
    assert first.installs == [INSTALL_LOCKED] * 2
    assert (first.environment / "own").read_text() == "of the user"


@pytest.mark.parametrize("name", ["a b", "l" * 110])
def test_pip_installs_where_programs_cannot_begin_with_the_path_of_their_interpreter(
    clone: Callable[[str], Clone], name: str
) -> None:
    clone("first").install()
    second = clone(name)
    with contextlib.suppress(OSError):  # the stub's program cannot run there
        second.install()
    assert second.installs == [INSTALL_LOCKED]


def test_an_environment_that_nobody_used_for_a_month_goes(clone: Callable[[str], Clone]) -> None:
    first = clone("first")
    first.install()
    [used] = (first.cache / "tfprov-tests" / "environments").iterdir()
    old = used.with_name("old")
    old.mkdir()
    for path in (used, old):
        os.utime(path, (0, 0))
    clone("second").install()
    assert list(used.parent.iterdir()) == [used]


@pytest.mark.parametrize(
    ("debians", "on_path", "expected"),
    [
        ("exit 0", ("python3.11", "python3"), "debian/python3.11"),
        (
            "[ \"$2\" != 'import ensurepip' ]",
            ("python3.11", "python3"),
            "path/python3.11",
        ),  # without the package python3.11-venv
        (None, ("python3.11", "python3"), "path/python3.11"),
        (None, ("python3",), "path/python3"),
        ("exit 0", (), "debian/python3.11"),
    ],
)
def test_make_prefers_the_python_of_debian_if_it_can_make_environments(
    tmp_path: Path, debians: str | None, on_path: tuple[str, ...], expected: str
) -> None:
    for name in ("debian", "path"):
        (tmp_path / name).mkdir()
    (tmp_path / "path/sh").symlink_to("/bin/sh")
    programs = {f"path/{name}": "exit 0" for name in on_path} | ({"debian/python3.11": debians} if debians else {})
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    text = (ROOT / "Makefile").read_text()
    assert text.count("/usr/bin/python3.11") == 2
    (tmp_path / "Makefile").write_text(text.replace("/usr/bin/python3.11", f"{tmp_path}/debian/python3.11"))
    program, rule = shutil.which("make") or "make", "chosen: ; @: $(info $(PYTHON))"
    argv = [program, "-s", "-C", str(tmp_path), "--eval", rule, "chosen"]
    done = subprocess.run(
        argv, env={"PATH": str(tmp_path / "path"), "HOME": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{tmp_path}/{expected}\n", done.stderr
