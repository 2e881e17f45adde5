"""Checks whether the programs of tasks can be started, without starting them.

Files in `code:` are looked up on the controller, programs of this machine in its PATH, and programs of an image in the
image, on a host that has it.
"""

import difflib
import posixpath
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfprov.engine.context import Context
from tfprov.errors import InvalidInput, Problem, printable
from tfprov.hosts.process.spec import PYTHON, environment
from tfprov.hosts.program_checks import COMMON_PROGRAMS
from tfprov.images.code_contents import CodeContents, names_tensorflow
from tfprov.images.saver_calls import default_saver_line
from tfprov.model.plan import ActionKind, Plan
from tfprov.model.state import Container
from tfprov.planning.command_parser import Program, module_files, parse_command, parse_shebang

if TYPE_CHECKING:
    from tfprov.hosts.docker.image_contents import ImageLookup

Which = Callable[[Container, str], str | None]
"""Returns the path of a program that a task would start by name; None if there is none."""


@dataclass(frozen=True)
class Fault:
    """Why a program cannot be started, and what to do about it."""

    what: str
    fix: str


def which(container: Container, name: str) -> str | None:
    """Return the program of this machine that a task starts by `name`, a bare or an absolute one."""
    own = container.python if name in PYTHON else None
    return shutil.which(own or name, path=environment(container)["PATH"])


@dataclass(frozen=True)
class Programs:
    """The programs of a cluster's tasks. `inside` is their code by its digest; `which` looks on this machine."""

    inside: Mapping[str, CodeContents]
    which: Which = which

    @classmethod
    def of(cls, context: Context) -> "Programs":
        """Return the programs of the tasks of `context`."""
        return cls({digest: CodeContents(code) for digest, code in context.codes.items()})

    def program(self, container: Container) -> Program | None:
        """Return the program of a task; None without a command, or if its code is not on the controller."""
        words: Sequence[str] = container.spec.get("command") or ()
        digest = container.spec.get("code")
        return parse_command(words) if words and (digest is None or digest in self.inside) else None

    def code(self, container: Container) -> CodeContents | None:
        """Return a task's code; None for a task without."""
        return self.inside.get(container.spec.get("code") or "")

    def fault(self, container: Container) -> Fault | None:
        """Return the fault that the controller can detect, or None."""
        if (program := self.program(container)) is None:
            return None
        inside = self.code(container)
        fault = _in_code(program, inside, in_image=container.docker is not None)
        if container.docker is None:
            return fault or self._fault_here(container, program, inside)
        return fault or _unmirrored(container, program, inside)

    def needs(self, container: Container) -> tuple[str, ...]:
        """Return the programs, and the files, that the image of a task must have."""
        program = self.program(container)
        if program is None or container.docker is None:
            return ()
        inside = self.code(container)
        has_code = inside is not None
        programs = [name for name in _programs(program, inside) if not (has_code and _is_slashed_relative(name))]
        if program.script and not (has_code and _is_relative(program.script)):  # else it was looked up in the code
            programs.append(program.script if "/" in program.script else f"./{program.script}")
        return tuple(dict.fromkeys(name for name in programs if not _is_mounted(container, name)))

    def uses_tensorflow(self, container: Container) -> bool | None:
        """Whether a task runs a Python program that imports TensorFlow; None where the program is not in its code."""
        program, inside = self.program(container), self.code(container)
        if program is None or container.task.role == "tensorboard" or self.python(container) is None:
            return False
        if program.text:
            return names_tensorflow(program.text)
        if program.module.startswith("tfprov."):
            return container.task.job != "notebook"
        return inside.imports_tensorflow if inside is not None and _is_of_code(program, inside) else None

    def python(self, container: Container) -> str | None:
        """Return the Python that a task is started with, as its command or a script's first line names it."""
        program = self.program(container)
        names = _programs(program, self.code(container)) if program is not None else []
        return next((name for name in names if Program(name).is_python), None)

    def _fault_here(self, container: Container, program: Program, inside: CodeContents | None) -> Fault | None:
        for name in _programs(program, inside):
            if not _is_slashed_relative(name) and self.which(container, name) is None:
                return _no_program(name, inside, "this machine", dict.fromkeys(COMMON_PROGRAMS, True), ())
        script = program.script
        if script.startswith("/") and not _is_mounted(container, script) and not Path(script).exists():
            return Fault(f"{script} is not on this machine", "correct the path")
        return None


def fault_of_image(programs: Programs, container: Container, lookup: "ImageLookup") -> Fault | None:
    """Return the first program or file that a task's image lacks, or None."""
    for name in programs.needs(container):
        if not lookup.present.get(name, True):
            if "/" in name and Program(name).command != container.spec["command"][0]:
                return Fault(
                    f"the image has no file {name.removeprefix('./')}", "correct the path, or put the file into `code`"
                )
            return _no_program(name, programs.code(container), "the image", lookup.present, lookup.entrypoint)
    return None


def alternatives(names: Iterable[str]) -> tuple[str, ...]:
    """Return further names to look up in an image, so that the fix can name one that it has."""
    return ("python3", "python") if any(Program(name).is_python or _close(name) for name in names) else ()


def refuse(context: Context, containers: Sequence[Container], fault: Callable[[Container], Fault | None]) -> None:
    """Raise InvalidInput, at the commands of the inventory, when `containers` cannot be started for a `fault`."""
    roles = {(role.role, role.host): role for role in context.roles}
    problems = []
    for container in containers:
        role = roles.get((container.task.role, container.task.host))
        if role is not None and (wrong := fault(container)) is not None:
            problems.append(Problem(role.at("command"), f"`command`: {wrong.what}", wrong.fix))
    if problems:
        raise InvalidInput(problems)


def refuse_start(context: Context, plan: Plan) -> tuple[Programs, list[Container]]:
    """Raise InvalidInput if the controller detects that a task in `plan` cannot be started.

    Return the programs, and the containers to start.
    """
    names = {action.subject for action in plan.actions if action.kind == ActionKind.START}
    starting = [container for container in context.wanted if container.task.name in names]
    programs = Programs.of(context)
    refuse(context, starting, programs.fault)
    return programs, starting


def _in_code(program: Program, inside: CodeContents | None, *, in_image: bool) -> Fault | None:
    own = program.command if _is_slashed_relative(program.command) else program.script
    if own and _is_relative(own):
        if inside is None:
            fix = "set `code` to the directory that it is in"
            return (
                None
                if in_image
                else Fault(f"there is no {printable(own)}: a task without `code` starts in an empty directory", fix)
            )
        if not inside.has(own):
            return Fault(
                f"{printable(own)} is not in the code ({inside.source})", _instead(own, inside, in_image=in_image)
            )
        if own == program.command:
            return _not_runnable(own, inside)
    return _no_module(program.module, inside) if inside is not None and program.module else None


def _unmirrored(container: Container, program: Program, inside: CodeContents | None) -> Fault | None:
    """Return the fault of a program whose weights stay with a ps, where nothing copies them to the remote directory.

    Processes of one machine share its disk, and the weights are where the chief says.
    """
    if not (container.remote and container.spec.get("wiring", {}).get("ps_hosts") and inside and program.script):
        return None
    if (line := default_saver_line(inside.read(program.script))) is None:
        return None
    saver = f"{printable(program.script)}:{line} saves with the default saver of MonitoredTrainingSession"
    what = f"{saver}: the weights stay with the ps, and the chief's files alone are copied to `checkpoints.dir`"
    return Fault(what, "save with tfprov.runtime, or pass `scaffold=tf.train.Scaffold(saver=tf.train.Saver())`")


def _not_runnable(name: str, inside: CodeContents) -> Fault | None:
    first = inside.first_line(name)
    fix = f"write the interpreter before it, for example `[{'python' if name.endswith('.py') else 'sh'}, {name}]`"
    if not inside.is_executable(name):
        return Fault(f"{printable(name)} is not executable", f"run `chmod +x` on it, or {fix}")
    if first is None or first.startswith(b"\x7fELF"):
        return None
    if not first.startswith(b"#!"):
        return Fault(f"{printable(name)} does not begin with `#!` and an interpreter", f"add it, or {fix}")
    if first.endswith(b"\r"):
        return Fault(f"the first line of {printable(name)} ends with a carriage return", "save it with Unix line ends")
    return None


def _no_module(module: str, inside: CodeContents) -> Fault | None:
    top = module.partition(".")[0]
    is_ours = any(name == f"{top}.py" or name.startswith(f"{top}/") for name in inside.names)
    if not is_ours and top == posixpath.basename(inside.source) and "." in module:
        within = module.partition(".")[2]
        if any(inside.has(name) for name in module_files(within)):
            what = f"there is no module {printable(module)}: a task starts inside of {inside.source}"
            return Fault(what, f"write `-m {printable(within)}`")
    if not is_ours or any(inside.has(name) for name in module_files(module)):
        return None
    return Fault(f"there is no module {printable(module)} in the code ({inside.source})", "correct the name after `-m`")


def _instead(name: str, inside: CodeContents, *, in_image: bool) -> str:
    same = [it for it in inside.names if posixpath.basename(it) == posixpath.basename(name)]
    close = same or difflib.get_close_matches(posixpath.normpath(name), inside.names, 1)
    fix = (
        f"did you mean {printable(close[0])}?"
        if close
        else "correct it, or `code`; a .dockerignore file may leave it out"
    )
    return f"{fix} a file of the image is named by its absolute path" if in_image and close else fix


def _no_program(
    name: str, inside: CodeContents | None, where: str, there: Mapping[str, bool], entrypoint: Sequence[str]
) -> Fault:
    what = f"{where} has no program {printable(name)}"
    if inside is not None and inside.has(name):
        return Fault(what, f"for the file in `code`, write [python, {name}], or ./{name} if it is executable")
    if entrypoint:
        start = ", ".join([*entrypoint, name])
        return Fault(f"{what}, and its ENTRYPOINT is not used", f"write the whole command: [{printable(start)}]")
    present = [it for it, is_there in there.items() if is_there and it != name]
    if Program(name).is_python and where == "the image" and not present:
        return Fault(what, "install Python in its Dockerfile, for example `FROM python:3.12-slim`")
    if name == "tensorboard":
        line = (
            "`RUN pip install tensorboard` in its Dockerfile"
            if where == "the image"
            else "`pip install 'tfprov[tensorflow]'`"
        )
        return Fault(what, f"install it: {line}")
    if name == "tensorflow_model_server":
        return Fault(what, "install TensorFlow Serving there, or leave `serving.server` out")
    close = difflib.get_close_matches(name, present, 1, 0.7)
    return Fault(what, f"did you mean {close[0]}?" if close else "install it there, or correct `command`")


def _programs(program: Program, inside: CodeContents | None) -> list[str]:
    """Return what is started: the command, and the interpreter that a script of the code names in its first line."""
    first = inside.first_line(program.command) if inside is not None and "/" in program.command else None
    interpreter = parse_shebang(first) if first else ""
    return [program.command, *([interpreter] if interpreter else [])]


def _is_of_code(program: Program, inside: CodeContents) -> bool:
    if program.module:
        return any(inside.has(name) for name in module_files(program.module))
    own = program.script or program.command
    return _is_relative(own) and inside.has(own)


def _is_relative(name: str) -> bool:
    """Whether a path leads into the working directory; a bare name does so for an interpreter's script."""
    return not name.startswith("/") and not posixpath.normpath(name).startswith("..")


def _is_slashed_relative(name: str) -> bool:
    return "/" in name and not name.startswith("/")


def _is_mounted(container: Container, name: str) -> bool:
    """Whether a path lies in a directory that exists only in the started task: data, checkpoints or a mount."""
    options = container.docker
    brought = [container.checkpoint_dir, container.env.get("TFPROV_DATA_DIR", "")]
    brought += [options.data_at or "", *(mount.target for mount in options.mounts)] if options else []
    path = posixpath.normpath(name)
    return any(path == it or path.startswith(f"{it.rstrip('/')}/") for it in brought if it)


def _close(name: str) -> bool:
    return bool(difflib.get_close_matches(name, ("python", "python3"), 1, 0.7))


def tasks_by_program(containers: Iterable[Container]) -> Iterator[tuple[Container, list[str]]]:
    """Yield one container of those that start the same, with the names of all of their tasks."""
    alike: dict[tuple[object, ...], tuple[Container, list[str]]] = {}
    for it in containers:
        key = (
            tuple(it.spec.get("command") or ()),
            it.spec.get("code"),
            it.docker and (it.docker.image, it.docker.mounts),
        )
        alike.setdefault((*key, it.env.get("PATH"), it.env.get("PYTHONPATH")), (it, []))[1].append(it.task.name)
    yield from alike.values()
