"""Parses the services of a Compose file or a Docker Swarm stack. Nothing is run, and no other file is read."""

import os
import re
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeGuard

from tfprov.errors import Position, printable
from tfprov.importing.identify import ForeignTask, Notes, Setting, SourceText, Volume
from tfprov.importing.tracked_mapping import (
    IN_HOST_NETWORK,
    SHARED_MEMORY,
    Fields,
    as_text,
    cpus,
    device_settings,
    docker_memory,
    note_directory,
    seconds,
)
from tfprov.model.settings import Settings
from tfprov.model.yaml_node import Items, Mapping, Node, Scalar

_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<plain>[A-Za-z_]\w*)"
    r"|\{(?P<name>[A-Za-z_]\w*)(?:(?P<how>:?[-?+])(?P<other>(?:\$\{[^{}]*\}|[^}])*))?\})"
)
_Read = Callable[[SourceText, Notes], Setting | None]
_WITH_DEFAULT = ("-", ":-")
_RESTART = {"no": "never", "never": "never", "none": "never", "always": "on-failure", "unless-stopped": "on-failure"}
_IGNORED = ("container_name", "hostname", "init", "networks", "depends_on", "links", "expose", "labels")
_ALSO_IGNORED = ("stdin_open", "tty", "cap_drop", "security_opt", "logging", "platform", "pull_policy")
_DROPPED = {
    "secrets": "secrets are not copied; put the values into `env`, encrypted with ansible-vault",
    "env_file": "name it as `env_file`, in which quotes and `$` mean nothing",
    "ports": "tfprov publishes a task's own port, on the address of its host",
    "network_mode": IN_HOST_NETWORK,
    "healthcheck": "tfprov checks the task's port itself",
    "privileged": "tfprov's containers have no privileges",
    "cap_add": "tfprov's containers have no capabilities",
    "extends": "tfprov does not read that file",
    "configs": "mount a directory of the host, or put it into `code`",
    "profiles": "all services are imported",
}


def is_compose(document: Node) -> TypeGuard[Mapping]:
    """Whether a document is a Compose file."""
    return isinstance(document, Mapping) and "services" in document.entries


def read_compose(document: Mapping, notes: Notes, home: Path) -> Iterator[ForeignTask]:
    """Yield the services of a Compose file; `home` is its directory."""
    with Fields(document, "", notes, document.at, partial(_interpolated, notes)) as fields:
        fields.ignore("version", "networks", "volumes")
        project = fields.text("name")
        fields.ignore(*(key for key in document.entries if key.startswith("x-")))
        fields.drop(
            {
                "include": "tfprov does not read that file",
                "secrets": _DROPPED["secrets"],
                "configs": _DROPPED["configs"],
            }
        )
        services = fields.mapping("services")
        group = project.text if project else ""
        for name, node in services.entries():
            fields_of = services.below(services.path_of(name), node)
            yield _Service(name, fields_of, services.position(name), home).to_task(group)


class _Service:
    def __init__(self, name: str, fields: Fields, at: Position, home: Path) -> None:
        self.name, self.fields, self.at, self.notes, self.home = name, fields, at, fields.notes, home
        self.settings: dict[str, Setting] = {}
        self.host: SourceText | None = None

    def to_task(self, group: str) -> ForeignTask:
        with self.fields as fields:
            fields.ignore(*_IGNORED, *_ALSO_IGNORED)
            fields.drop(_DROPPED)
            image = self.image()
            argv = (*self.argv("entrypoint"), *self.argv("command"))
            env = dict(self.environment())
            volumes = tuple(filter(None, (self.volume(node) for node in fields.items("volumes"))))
            self.read_limits()
            self.read_user()
            note_directory(fields, "working_dir", self.notes, is_ours="TFPROV_TASK" in env)
            count = self.read_deploy(fields.mapping("deploy"))
        return ForeignTask(
            name=self.name, at=self.at, group=group, count=count, image=image, argv=argv, env=env, volumes=volumes,
            settings=self.settings, host=self.host,
        )  # fmt: skip

    def image(self) -> Setting | None:
        name, build = self.fields.text("image"), self.fields.pop("build")
        if build is None:
            return Setting({"name": name.text}, name.at) if name else None
        if isinstance(build, Scalar):
            return Setting({"build": str(self.home / self.fields.read(build))}, build.at)
        with self.fields.below(self.fields.path_of("build"), build) as fields:
            context = fields.text("context")
            dockerfile = fields.text("dockerfile")
            args = fields.pop("args")
        if args is not None:
            self.notes.drop(f"{self.fields.path_of('build')}.args", args.at, "write them as `image.build_args`")
        value = {"build": str(self.home / (context.text if context else "."))}
        return Setting(value | ({"dockerfile": dockerfile.text} if dockerfile else {}), build.at)

    def argv(self, key: str) -> tuple[SourceText, ...]:
        node = self.fields.pop(key)
        if isinstance(node, Items):
            words = [item for item in node.items if isinstance(item, Scalar)]
            return tuple(SourceText(self.fields.read(word), word.at) for word in words)
        if not isinstance(node, Scalar):
            return ()
        try:
            return tuple(SourceText(word, node.at) for word in shlex.split(self.fields.read(node)))
        except ValueError as error:
            self.notes.refuse(node.at, f"`{self.fields.path_of(key)}`: {str(error).lower()}", "close the quote")
            return ()

    def environment(self) -> Iterator[tuple[str, SourceText]]:
        node = self.fields.pop("environment")
        if isinstance(node, Mapping):
            pairs = [(name, value, node.key_at(name)) for name, value in node.entries.items()]
        else:
            items = node.items if isinstance(node, Items) else ()
            split = [(as_text(item).partition("="), item.at) for item in items if isinstance(item, Scalar)]
            pairs = [(name, Scalar(value if equals else None, at, value), at) for (name, equals, value), at in split]
        for name, value, at in pairs:
            if isinstance(value, Scalar) and value.data is not None and not _needs_environment(as_text(value)):
                yield name, SourceText(self.fields.read(value), at)
                continue
            self.notes.drop(
                f"{self.fields.path_of('environment')}.{name}", at, "it comes from the environment of Compose"
            )

    def volume(self, node: Node) -> Volume | None:
        if isinstance(node, Scalar):
            source, colon, rest = self.fields.read(node).partition(":")
            target, _, options = rest.partition(":")
            if not colon:
                return Volume(SourceText(source, node.at))
            is_directory = source.startswith((".", "/", "~"))
            path = self.path(source) if is_directory else None
            return Volume(SourceText(target, node.at), path, "ro" in options.split(","))
        with self.fields.below(self.fields.path_of("volumes"), node) as fields:
            kind, source_, target_ = fields.text("type"), fields.text("source"), fields.text("target")
            is_read_only = fields.boolean("read_only")
            size = fields.mapping("tmpfs").text("size")
            fields.ignore("bind", "volume")
        if target_ is None:
            return None
        if size and target_.text == SHARED_MEMORY and (shm_size := docker_memory(size, self.notes)):
            self.settings["shm_size"] = shm_size
            return None
        is_bind = kind is not None and kind.text == "bind" and source_ is not None
        return Volume(target_, self.path(source_.text) if is_bind and source_ else None, is_read_only)

    def path(self, source: str) -> str | None:
        try:
            return os.path.normpath(self.home.absolute() / Path(source).expanduser())
        except RuntimeError:  # below the home of a user who does not exist here
            return None

    def read_limits(self) -> None:
        fields = self.fields
        self.read_amount(fields, "mem_limit", docker_memory, "memory")
        self.read_amount(fields, "shm_size", docker_memory, "shm_size")
        self.read_amount(fields, "cpus", cpus, "cpus")
        self.read_amount(fields, "stop_grace_period", seconds, "stop_grace")
        self.read_pids(fields, "pids_limit")
        self.settings |= device_settings(fields, self.notes)
        self.read_gpus(fields.pop("gpus"))
        restart = fields.text("restart")
        if restart:
            self.read_restart(restart)

    def read_amount(self, fields: Fields, key: str, read: _Read, setting: str) -> None:
        if (text := fields.text(key)) and (value := read(text, self.notes)):
            self.settings[setting] = value

    def read_pids(self, fields: Fields, key: str) -> None:
        pids = fields.integer(key, signed=True)
        if pids and pids[0] > 0:
            self.settings["pids"] = Setting(*pids)
        elif pids:
            default = Settings.model_fields["pids"].default
            self.notes.drop(fields.path_of(key), pids[1], f"tfprov's containers have a limit, {default}: set `pids`")

    def read_user(self) -> None:
        if user := self.fields.text("user"):
            self.settings["user"] = Setting(user.text, user.at)
        if self.fields.boolean("read_only"):
            self.settings["read_only"] = Setting(True, self.fields.position("read_only"))

    def read_restart(self, text: SourceText) -> None:
        policy, _, times = text.text.partition(":")
        if policy in _RESTART:
            self.settings["restart"] = Setting(_RESTART[policy], text.at)
            if policy in ("always", "unless-stopped"):
                self.notes.add(
                    text.at, f"`{policy}` becomes `on-failure`: a task that exits with 0 is not started again"
                )
        elif policy == "on-failure":
            self.settings["restart"] = Setting("on-failure", text.at)
            if times.isdecimal() and 0 < int(times[:6]) <= 1000:
                self.settings["max_restarts"] = Setting(int(times), text.at)
        else:
            self.notes.drop(text.text, text.at)

    def read_deploy(self, deploy: Fields) -> int:
        """Read the `deploy` key of a service; return how many tasks it asks for."""
        with deploy:
            if (mode := deploy.text("mode")) and mode.text not in ("replicated", "replicated-job"):
                self.notes.drop(f"{deploy.path_of('mode')}: {mode.text}", mode.at, "set the hosts of the group")
            deploy.ignore("endpoint_mode", "update_config", "rollback_config", "labels")
            replicas = deploy.integer("replicas")
            with deploy.mapping("restart_policy") as policy:
                policy.ignore("delay", "window")
                condition, attempts = policy.text("condition"), policy.integer("max_attempts")
            if condition:
                self.read_restart(SourceText({"any": "always"}.get(condition.text, condition.text), condition.at))
            if attempts:
                self.settings["max_restarts"] = Setting(*attempts)
            with deploy.mapping("placement") as placement:
                for node in placement.items("constraints"):
                    self.read_constraint(node)
            with deploy.mapping("resources") as resources:
                self.read_resources(resources)
        return replicas[0] if replicas else 1

    def read_constraint(self, node: Node) -> None:
        text = self.fields.text_of(node)
        match = re.fullmatch(r"\s*node\.hostname\s*==\s*(\S+)\s*", text.text) if text else None
        if text and match:
            self.host = SourceText(match[1], text.at)
        elif text and text.text.replace(" ", "") != "node.role==manager":
            self.notes.drop(text.text, text.at, "put the hosts into groups of the inventory")

    def read_resources(self, resources: Fields) -> None:
        with resources.mapping("limits") as limits:
            self.read_amount(limits, "memory", docker_memory, "memory")
            self.read_amount(limits, "cpus", cpus, "cpus")
            self.read_pids(limits, "pids")
        with resources.mapping("reservations") as reserved:
            for node in (*reserved.items("devices"), *reserved.items("generic_resources")):
                self.read_device(node)

    def read_gpus(self, node: Node | None) -> None:
        """Read the `gpus` key of a service: `all`, a number, or a list of devices."""
        for device in node.items if isinstance(node, Items) else ():
            self.read_device(device)
        if node and (text := self.fields.text_of(node)):
            self.set_gpus(text)

    def read_device(self, node: Node) -> None:
        with self.fields.below("devices", node) as device:
            device.ignore("driver", "capabilities")
            count = device.text("count")
            with device.mapping("discrete_resource_spec") as spec:
                spec.ignore("kind")
                count = spec.text("value") or count
        self.set_gpus(count or SourceText("all", node.at))

    def set_gpus(self, text: SourceText) -> None:
        word = text.text
        if word in ("all", "-1") or (word.isdecimal() and len(word) < 5):
            self.settings["gpus"] = Setting(int(word) if word.isdecimal() else "all", text.at)
        else:
            self.notes.drop(word, text.at, "not a number of GPUs")


def _needs_environment(text: str) -> bool:
    """Whether a text has a variable without a default."""
    return any(
        match["how"] not in _WITH_DEFAULT or _needs_environment(match["other"])
        for match in _VARIABLE.finditer(text)
        if not match["dollar"]
    )


def _interpolated(notes: Notes, node: Scalar) -> str:
    """Interpolate a scalar as Compose does; a variable without a default becomes empty, with a note."""

    def replaced(match: re.Match[str]) -> str:
        if match["dollar"]:
            return "$"
        if match["how"] in _WITH_DEFAULT:
            return _VARIABLE.sub(replaced, match["other"])
        name = printable(match["plain"] or match["name"])
        notes.add(node.at, f"`${name}` is not carried over: it comes from the environment of Compose")
        return ""

    return _VARIABLE.sub(replaced, as_text(node))
