"""The program of a command, and the script or module of an interpreter."""

import shlex

from tfprov.planning.command_parser import Program, module_files, parse_command, parse_shebang

COMMANDS = {
    "python train.py --fast": Program("python", script="train.py"),
    "python3.11 -u -O train.py": Program("python3.11", script="train.py"),
    "/opt/venv/bin/python -X importtime -Werror -W ignore src/train.py -m x": Program(
        "/opt/venv/bin/python", script="src/train.py"
    ),
    "python -m pkg.train x.py": Program("python", module="pkg.train"),
    "python -um train": Program("python", module="train"),
    "python -mtrain": Program("python", module="train"),
    "python -c 'import x' y.py": Program("python", text="import x"),
    "python -ucpass": Program("python", text="pass"),
    "python": Program("python"),
    "python -": Program("python"),
    "python -- x.py": Program("python"),
    "pypy3.10 -W error x.py": Program("pypy3.10", script="x.py"),
    "python -X": Program("python"),
    "python -uX dev x.py": Program("python", script="x.py"),
    "python -m": Program("python"),
    "python --check-hash-based-pycs always x.py": Program("python"),
    "sh task.sh": Program("sh", script="task.sh"),
    "/bin/bash -eu run.sh x": Program("/bin/bash", script="run.sh"),
    "bash -c 'cd x && python y.py'": Program("bash"),
    "bash -ec x": Program("bash"),
    "bash -o pipefail run.sh": Program("bash"),
    "./train.py x": Program("./train.py"),
    "env A=1 python x.py": Program("env"),
    "pythonic x.py": Program("pythonic"),
}


COMMANDS |= {
    f"{shell} {option} run.sh": Program(shell, script="run.sh")
    for shell in ("sh", "bash", "dash", "ash", "ksh", "zsh")
    for option in ("-e", "-u", "-x", "-eu", "-ex", "-eux")
} | {"sh +e run.sh": Program("sh")}


def test_the_program_of_a_command_is_parsed() -> None:
    programs = {line: parse_command(shlex.split(line)) for line in COMMANDS}
    assert {line: it for line, it in programs.items() if it != COMMANDS[line]} == {}


def test_a_module_is_a_file_or_a_package_with_a_main_file() -> None:
    assert list(module_files("pkg.train")) == ["pkg/train.py", "pkg/train/__main__.py"]


def test_the_interpreter_in_a_shebang_is_parsed() -> None:
    lines = {
        b"#!/bin/sh -e": "/bin/sh",
        b"#! /usr/bin/python3": "/usr/bin/python3",
        b"#!/usr/bin/env python3": "python3",
        b"#!/usr/bin/env -S A=1 python3 -u": "python3",
        b"#!/usr/bin/env": "/usr/bin/env",
        b"#!/opt/\xff/python": "/opt/\ufffd/python",
        b"#!": "",
        b"import x": "",
        b"\x7fELF": "",
    }
    assert {line: parse_shebang(line) for line in lines} == lines
