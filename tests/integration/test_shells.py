"""Real shells: completion in a terminal, installed by `tfprov completion install`, and command lines for a login shell."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.command_output import SMALLEST
from tests.support.paths import ROOT
from tests.support.shells import BIN, STARTS, interactive
from tfprov.hosts.ssh.shell import command_line

BASHRC = "PS1='> '\n"
ZSHRC = "PS1='> '\nunsetopt ZLE_RPROMPT_INDENT\nzstyle ':completion:*' menu no\n"
FISH = "function fish_prompt; echo -n '> '; end\n"


def home_of(tmp_path: Path) -> dict[str, str]:
    """Make a user's home with plain prompts, and an inventory in `work/`; return the environment."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "inventory.yml").write_text(SMALLEST)
    (tmp_path / "work" / "lab file.yml").write_text(SMALLEST)
    (tmp_path / ".bashrc").write_text(BASHRC)
    (tmp_path / ".zshrc").write_text(ZSHRC)
    (tmp_path / ".config" / "fish").mkdir(parents=True)
    (tmp_path / ".config" / "fish" / "config.fish").write_text(FISH)
    return {
        "HOME": str(tmp_path),
        "PATH": f"{BIN}{os.pathsep}{os.defpath}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


@pytest.mark.usefixtures("shells")
@pytest.mark.parametrize("shell", STARTS)
def test_tab_completes_verbs_options_tasks_and_files(shell: str, tmp_path: Path) -> None:
    env, work = home_of(tmp_path), tmp_path / "work"
    first = subprocess.run(
        [BIN / "tfprov", "completion", "install", shell], env=env, capture_output=True, text=True, check=True
    )
    assert "start a new shell" in first.stdout
    with interactive(STARTS[shell], env, work) as window:
        window.shows(">")
        window.type("tfprov compl\t")
        window.shows("tfprov completion")
        window.type("\x15tfprov logs wor\t")
        window.shows("tfprov logs worker/0")
        window.type("\x15tfprov gather --accept\t")
        window.shows("tfprov gather --accept-new")
        window.type("\x15tfprov render compo\t")
        window.shows("tfprov render compose")
        window.type("\x15tfprov plan -i lab\t")
        window.shows("lab\\ file.yml")
        # Nothing fits, and the inventory cannot be read: the prompt stays as it is, without an error.
        (work / "inventory.yml").write_text("all: [")
        window.type("\x15tfprov logs wo\t\x15printf '%s-%s' done 2\r")
        window.shows("done-2")
        assert "rror" not in window.text, window.text


@pytest.mark.usefixtures("shells")
@pytest.mark.parametrize("shell", STARTS)
def test_a_login_shell_passes_backslashes_and_quotes_as_they_are(shell: str, tmp_path: Path) -> None:
    words = [
        "\\d+\\.tfrecord",
        "\\\\",
        "\\",
        "it's \\'",
        "'\\",
        "$HOME\\n",
        "~\\",
        '\\"',
        "\\\n",
        "",
        " \\ ",
        "{a,b}",
        "*?[a]",
        "(x)",
    ]
    line = command_line(["printf", "%s\\0", "-", *words])
    done = subprocess.run([shell, "-c", line], env=home_of(tmp_path), capture_output=True, check=True)
    assert done.stdout.split(b"\0")[1:-1] == [word.encode() for word in words]


@pytest.mark.usefixtures("shells")
def test_man_shows_the_page_without_a_warning() -> None:
    shown = subprocess.run(
        ["man", "--warnings", "-l", str(ROOT / "man" / "tfprov.1")],
        capture_output=True, text=True, check=True, env={"PATH": os.defpath, "LANG": "C.UTF-8", "MANWIDTH": "100"},
    )  # fmt: skip
    assert shown.stderr == ""
    assert "tfprov run [OPTIONS]" in shown.stdout
    assert "tfprov inventory set" in shown.stdout
