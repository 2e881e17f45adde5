"""Whether the programs of tasks can be started: what the controller sees in their code, on itself, and in an image."""

import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.support.paths import PROGRAMS
from tfprov.engine.checks.host_rules import IMPORTING, IN_IMAGE, of_processes, tensorflow, undelivered
from tfprov.engine.checks.image_programs import old_python
from tfprov.engine.command_checks import Programs, fault_of_image, tasks_by_program
from tfprov.hosts.docker.image_contents import ImageLookup
from tfprov.hosts.program_checks import ImportResult, parse_result
from tfprov.images.code import Code
from tfprov.images.code_contents import CodeContents
from tfprov.model.cluster import Task
from tfprov.model.state import Container, DockerOptions, Mount

DIGEST = "sha256:c0de"
FILES = {
    "train.py": (0o644, b"import tensorflow as tf\n"),
    "pkg/__main__.py": (0o644, b"from tensorflow import keras\n"),
    "pkg/train.py": (0o644, b""),
    "app/__main__.py": (0o644, b""),
    "run.sh": (0o644, b"#!/bin/sh\n"),
    "go.sh": (0o755, b"#!/bin/sh\n"),
    "go.py": (0o755, b"#!/usr/bin/env python3\nimport tensorflow\n"),
    "lost.py": (0o755, b"#!/usr/bin/env pythonx\n"),
    "plain.sh": (0o755, b"echo\n"),
    "dos.sh": (0o755, b"#!/bin/sh\r\necho\r\n"),
    "binary": (0o755, b"\x7fELF..."),
}
HERE = {"python": "/venv/bin/python", "python3": "/usr/bin/python3", "sh": "/bin/sh", "/bin/sh": "/bin/sh"}


def packed(files: Mapping[str, tuple[int, bytes]] = FILES, **links: str) -> Code:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, (mode, data) in files.items():
            info = tarfile.TarInfo(name)
            info.mode, info.size = mode, len(data)
            archive.addfile(info, io.BytesIO(data))
        for name, target in links.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return Code("/home/anna/src", DIGEST, buffer.getvalue())


def container(
    *words: str, code: str | None = DIGEST, docker: DockerOptions | None = None, role: str = "worker"
) -> Container:
    task = Task(role, 0, role, "h1", "127.0.0.1", 2222)
    return Container(task, {"command": list(words), "code": code}, words, {}, "/checkpoints", docker=docker)


def programs(code: Code | None = None) -> Programs:
    return Programs({DIGEST: CodeContents(code or packed(linked="pkg"))}, lambda _container, name: HERE.get(name))


BOX = DockerOptions("tfprov/linear:1", mounts=(Mount("/opt/venv", "/opt/venv"),))


@dataclass(frozen=True)
class Case:
    """A command, and the beginning of what is wrong with it; empty for nothing. `fix` is part of the remedy."""

    words: Sequence[str]
    what: str = ""
    fix: str = ""
    code: str | None = DIGEST
    docker: DockerOptions | None = field(default=None)


NOT_IN = "{} is not in the code (/home/anna/src)"
CASES = [
    Case(["python", "train.py"]),
    Case(["python", "./train.py"]),
    Case(["python", "-m", "pkg"]),
    Case(["python", "-m", "pkg.train"]),
    Case(["python", "-m", "http.server"]),
    Case(["python", "-m", "src.nothing"]),
    Case(["python", "-c", "import x"]),
    Case(["python", "app"]),
    Case(["python", "linked/train.py"]),
    Case(["python", "../elsewhere.py"]),
    Case(["sh", "-c", "cd pkg && missing.sh"]),
    Case(["sh", "run.sh"]),
    Case(["./go.sh"]),
    Case(["./go.py"]),
    Case(["./binary"]),
    Case(["/bin/sh", "run.sh"]),
    Case(["python", "trian.py"], NOT_IN.format("trian.py"), "did you mean train.py?"),
    Case(["python", "src/pkg/train.py"], NOT_IN.format("src/pkg/train.py"), "did you mean train.py?"),
    Case(["python", "zzz.py"], NOT_IN.format("zzz.py"), "correct it, or `code`; a .dockerignore file may leave it out"),
    Case(["python", "x.py"], "there is no x.py: a task without `code` starts in an empty directory", "set `code`", None),
    Case(["python", "/nonexistent/x.py"], "/nonexistent/x.py is not on this machine", "correct the path"),
    Case(["python", "/checkpoints/x.py"]),
    Case(["python", "-m", "pkg.fit"], "there is no module pkg.fit in the code", "correct the name after `-m`"),
    Case(["python", "-m", "src.train"], "there is no module src.train: a task starts inside", "write `-m train`"),
    Case(["pyhton", "train.py"], "this machine has no program pyhton", "did you mean python?"),
    Case(["train.py"], "this machine has no program train.py", "write [python, train.py], or ./train.py"),
    Case(["frobnicate"], "this machine has no program frobnicate", "install it there, or correct `command`"),
    Case(["tensorboard"], "this machine has no program tensorboard", "install it: `pip install 'tfprov[tensorflow]'`"),
    Case(["./run.sh"], "./run.sh is not executable", "run `chmod +x` on it"),
    Case(["./plain.sh"], "./plain.sh does not begin with `#!`", "add it, or write the interpreter before it"),
    Case(["./dos.sh"], "the first line of ./dos.sh ends with a carriage return", "Unix line ends"),
    Case(["./lost.py"], "this machine has no program pythonx", "did you mean python?"),
    Case(["./lost.py"], docker=BOX),  # the image may have it
    Case(["pyhton", "train.py"], docker=BOX),
    Case(["python", "train.py"], code=None, docker=BOX),  # the image's working directory may have it
    Case(["python", "trian.py"], NOT_IN.format("trian.py"), "a file of the image is named by its absolute path",
         docker=BOX),
]  # fmt: skip


def test_faults_that_the_controller_detects() -> None:
    wrong = {}
    for case in CASES:
        fault = programs().fault(container(*case.words, code=case.code, docker=case.docker))
        what, fix = (fault.what, fault.fix) if fault else ("", "")
        if not (what.startswith(case.what) and bool(what) == bool(case.what) and case.fix in fix):
            wrong[" ".join(case.words)] = (what, fix)
    assert wrong == {}


def mirrored(docker: DockerOptions | None, *ps: str) -> Container:
    made = container("python", "textbook.py", docker=docker)
    return replace(made, spec={**made.spec, "wiring": {"ps_hosts": list(ps)}}, remote="s3://bucket/run")


def test_a_saver_that_leaves_the_weights_with_a_ps_is_refused_for_a_remote_directory() -> None:
    textbook = (PROGRAMS / "textbook.py").read_bytes()
    here = programs(packed({"textbook.py": (0o644, textbook)}))
    fault = here.fault(mirrored(BOX, "10.0.0.1:2222"))
    assert fault is not None
    assert fault.what.startswith("textbook.py:32 saves with the default saver of MonitoredTrainingSession: the weights")
    assert fault.fix.startswith("save with tfprov.runtime, or pass `scaffold=")
    assert here.fault(mirrored(None, "127.0.0.1:2222")) is None, "processes share the disk of the chief"
    assert here.fault(mirrored(BOX)) is None, "without a ps, the chief has the weights"
    assert here.fault(replace(mirrored(BOX, "10.0.0.1:2222"), remote=None)) is None, "gather fetches them from the ps"
    linear = programs(packed({"textbook.py": (0o644, (PROGRAMS / "linear.py").read_bytes())}))
    assert linear.fault(mirrored(BOX, "10.0.0.1:2222")) is None


def test_code_that_is_not_here_is_not_judged() -> None:
    assert programs().fault(container("python", "nothing.py", code="sha256:other")) is None


NO_PYTHON = {"python": False, "python3": False}
IMAGES = [
    (["python", "train.py"], {"python": True}, (), "", ""),
    (["python", "train.py"], {"python": False, "python3": True}, (), "the image has no program python", "mean python3?"),
    (["python", "train.py"], NO_PYTHON, (), "the image has no program python", "`FROM python:3.12-slim`"),
    (["pyhton", "x"], {"pyhton": False, "python": True}, (), "the image has no program pyhton", "did you mean python?"),
    (["frob"], {"frob": False}, (), "the image has no program frob", "install it there, or correct `command`"),
    (
        ["train.py"], {"train.py": False}, ("python", "-u"),
        "the image has no program train.py", "for the file in `code`, write [python, train.py]",
    ),
    (
        ["/app/x.py"], {"/app/x.py": False}, ("python",),
        "the image has no program /app/x.py, and its ENTRYPOINT is not used", "[python, /app/x.py]",
    ),
    (["python", "/app/x.py"], {"python": True, "/app/x.py": False}, (), "the image has no file /app/x.py", "correct"),
    (["tensorboard"], {"tensorboard": False}, (), "the image has no program tensorboard", "RUN pip install tensorboard"),
    (["./go.py"], {"python3": False}, (), "the image has no program python3", "install Python in its Dockerfile"),
]  # fmt: skip


def test_faults_of_an_image() -> None:
    wrong = {}
    for words, there, entrypoint, what, fix in IMAGES:
        task = container(*words, docker=BOX)
        assert set(programs().needs(task)) <= set(there), words
        fault = fault_of_image(programs(), task, ImageLookup(there, entrypoint))
        message = (fault.what, fault.fix) if fault else ("", "")
        if message[0] != what or fix not in message[1]:
            wrong[" ".join(words)] = message
    assert wrong == {}


RUNTIME = {
    "train.py": (0o644, b"import os\nfrom tfprov import runtime\n"),
    "plain.py": (0o644, b"import tensorflow\nfrom tfprov import formats\n"),
}
OLD_PYTHONS = [
    (["python", "train.py"], "/usr/bin/python3.6", "the image has Python 3.6, and tfprov.runtime needs 3.8 or newer"),
    (
        ["python", "-m", "tfprov.runtime.server"],
        "/usr/bin/python3.7",
        "the image has Python 3.7, and tfprov.runtime needs",
    ),
    (["python", "train.py"], "/usr/local/bin/python3.8", ""),
    (["python", "train.py"], "/usr/local/bin/python3.13", ""),
    (["python", "train.py"], "/usr/local/bin/python", ""),
    (["python", "train.py"], "", ""),
    (["python", "plain.py"], "/usr/bin/python3.6", ""),
    (["python", "/app/x.py"], "/usr/bin/python3.6", ""),
    (["sh", "train.py"], "/usr/bin/python3.6", ""),
]


def test_an_image_whose_python_is_too_old_for_the_runtime() -> None:
    wrong = {}
    for words, file, what in OLD_PYTHONS:
        looked = ImageLookup({"python": bool(file)}, files={"python": file})
        fault = old_python(programs(packed(RUNTIME)), container(*words, docker=BOX), looked)
        if (fault.what if fault else "")[: len(what) or None] != what:
            wrong[*words, file] = fault
    assert wrong == {}


def test_programs_that_an_image_must_have() -> None:
    needs = {
        ("python", "train.py"): ("python",),
        ("python", "/app/x.py"): ("python", "/app/x.py"),
        ("./go.py",): ("python3",),
        ("/opt/venv/bin/python", "train.py"): (),  # a directory of the host
        ("/opt/venv2/bin/python", "train.py"): ("/opt/venv2/bin/python",),
        ("sh", "/checkpoints/x.sh"): ("sh",),
        ("sh", "-c", "x"): ("sh",),
    }
    assert {words: programs().needs(container(*words, docker=BOX)) for words in needs} == needs
    assert programs().needs(container("python", "x.py", code=None, docker=BOX)) == ("python", "./x.py")


def test_programs_that_import_tensorflow() -> None:
    uses = {
        ("python", "train.py"): True,
        ("python", "-m", "pkg"): True,
        ("./go.py",): True,
        ("python", "-c", "import tensorflow as tf"): True,
        ("python", "-c", "print(1)"): False,
        ("python", "/app/x.py"): None,
        ("python", "-m", "official.train"): None,
        ("sh", "-c", "python train.py"): False,
        ("./go.sh",): False,
    }
    assert {words: programs().uses_tensorflow(container(*words)) for words in uses} == uses
    plain = programs(packed({"train.py": (0o644, b"# import tensorflow\nimport torch\n")}))
    assert plain.uses_tensorflow(container("python", "train.py")) is False
    assert programs().uses_tensorflow(container("tensorboard", role="tensorboard")) is False


def test_an_import_of_tensorflow_is_read_and_judged() -> None:
    outputs = {
        (0, "noise\n@imported 2.15.0 4.2\n"): ("ok", "TensorFlow 2.15.0, imported by python in 4.2 s"),
        (0, "@failed ModuleNotFoundError: No module named 'tensorflow'\n"): (
            "failed", "python has no TensorFlow; install it: `RUN pip install tensorflow` in the image's Dockerfile",
        ),
        (0, "@failed ImportError: libcu.so: none\n"): (
            "failed", "python cannot import it: ImportError: libcu.so: none; mend it, for example with `RUN pip",
        ),
        (3, ""): ("warning", "its import by python is not done after 100 s; look at the disk and the load there"),
        (132, ""): ("failed", "python cannot import it: ended by SIGILL: this CPU cannot run it; mend it"),
        (1, "a\nsome error\n"): ("failed", "python cannot import it: some error; mend it"),
        (1, ""): ("failed", "python cannot import it: exit code 1; mend it"),
    }  # fmt: skip
    actual = {key: tensorflow(parse_result(*key), "python", IN_IMAGE, is_sure=True) for key in outputs}
    message = {key: (str(it.verdict), str(it)) for key, it in actual.items()}
    wrong = {
        key: it for key, it in message.items() if it[0] != outputs[key][0] or not it[1].startswith(outputs[key][1])
    }
    assert wrong == {}
    unsure = tensorflow(ImportResult(error="x", absent=True), "python", IN_IMAGE, is_sure=False)
    assert str(unsure.verdict) == "warning"
    assert IMPORTING == "importing TensorFlow with the tasks' Python", "in the last line of a terminal"


def test_processes_import_once_for_all_that_use_the_same_python() -> None:
    requests: list[str] = []

    def imported(_container: Container, python: str) -> ImportResult:
        requests.append(python)
        return ImportResult(error="x", absent=True)

    wanted = [container("python3", "train.py"), container("python3", "-m", "pkg"), container("sh", "-c", "x")]
    own = replace(programs(), which=lambda _container, name: f"/usr/bin/{name}")
    install = "`/usr/bin/python3 -m pip install 'tfprov[tensorflow]'`"
    findings = [(it.check, str(it.verdict), str(it)) for it in of_processes(own, wanted, imported)]
    assert findings == [
        ("command", "ok", "python3 train.py"),
        ("tensorflow", "failed", f"/usr/bin/python3 has no TensorFlow; install it: {install}"),
        ("command", "ok", "python3 -m pkg"),
        ("command", "ok", "sh -c x"),
    ]  # fmt: skip
    assert requests == ["/usr/bin/python3"]


def test_tasks_that_start_the_same_are_looked_at_once() -> None:
    one, two = container("sh", "-c", "x"), container("sh", "-c", "x", role="ps")
    assert [tasks for _, tasks in tasks_by_program([one, two, container("sh")])] == [["worker/0", "ps/0"], ["worker/0"]]
    (message,) = undelivered(one)
    assert (str(message.verdict), message.what) == ("note", "sh -c x: not known until the image is there")
