"""Parses the services of a Compose file or a Docker Swarm stack. Nothing is run, and no other file is read."""

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tfprov.errors import Position, printable
from tfprov.importing.identify import ForeignTask, Notes, Setting, SourceText, Volume
from tfprov.importing.tracked_mapping import Fields, as_text, cpus, docker_memory, seconds
from tfprov.model.node import Items, Mapping, Node, Scalar

_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<plain>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?:(?P<how>:?[-?+])(?P<other>[^}]*))?\})"
)
_WITH_DEFAULT = ("-", ":-")
_RESTART = {"no": "never", "never": "never", "none": "never", "always": "on-failure", "unless-stopped": "on-failure"}
_SILENT = ("container_name", "hostname", "init", "networks", "network_mode", "depends_on", "links", "expose", "labels")
_SILENT_TOO = ("stdin_open", "tty", "cap_drop", "security_opt", "logging", "platform", "pull_policy", "working_dir")
_WHY = {
    "secrets": "secrets are not copied; put what is needed into `env`, encrypted with ansible-vault",
    "env_file": "that file is not read; put what is needed into `env`",
    "ports": "tfprov publishes a task's own port, on the address of its host",
    "healthcheck": "tfprov looks whether a task answers on its port",
    "privileged": "tfprov's containers have no privileges",
    "cap_add": "tfprov's containers have no capabilities",
    "user": "tfprov's containers have the user of their image",
    "extends": "that file is not read",
    "configs": "mount a directory of the host, or put it into `code`",
    "devices": "tfprov gives GPUs only, with `gpus`",
    "profiles": "all services are imported",
}


def is_compose(document: Node) -> bool:
    """Whether a document is a Compose file."""
    return isinstance(document, Mapping) and "services" in document.entries


def read_compose(document: Node, notes: Notes, home: Path) -> Iterator[ForeignTask]:
    """Yield the services of a Compose file; `home` is the directory it lies in."""
    with Fields(document, "", notes, document.at) as top:
        top.without("version", "networks", "volumes")
        named = top.text("name")
        for key in [key for key, _ in getattr(document, "entries", {}).items() if key.startswith("x-")]:
            top.without(key)
        top.refuse({"include": "that file is not read", "secrets": _WHY["secrets"], "configs": _WHY["configs"]})
        services = top.below("services")
        for name, node in services.entries():
            task = _Service(name, node, services.where(name), notes, home).found()
            yield replace(task, group=named.text if named else "")


class _Service:
    def __init__(self, name: str, node: Node, at: Position, notes: Notes, home: Path) -> None:
        self.name, self.at, self.notes, self.home = name, at, notes, home
        self.fields = Fields(node, f"services.{name}", notes, at)
        self.settings: dict[str, Setting] = {}
        self.host: SourceText | None = None
        self.count = 1

    def found(self) -> ForeignTask:
        with self.fields as fields:
            fields.without(*_SILENT, *_SILENT_TOO)
            fields.refuse(_WHY)
            image = self.image()
            words = (*self.words("entrypoint"), *self.words("command"))
            env = dict(self.environment())
            volumes = tuple(filter(None, (self.volume(node) for node in fields.items("volumes"))))
            self.limits()
            self.deploy(fields.below("deploy"))
        return ForeignTask(
            name=self.name, at=self.at, count=self.count, image=image, words=words, env=env, volumes=volumes,
            settings=self.settings, host=self.host,
        )  # fmt: skip

    def image(self) -> Setting | None:
        name, build = self.fields.text("image"), self.fields.take("build")
        if build is None:
            return Setting({"name": self.plain(name)}, name.at) if name else None
        if isinstance(build, Scalar):
            return Setting({"build": str(self.home / as_text(build))}, build.at)
        with Fields(build, self.fields.name("build"), self.notes, build.at) as fields:
            context = fields.text("context")
            dockerfile = fields.text("dockerfile")
            args = fields.take("args")
        if args is not None:
            self.notes.left(f"{self.fields.name('build')}.args", args.at, "write them as `image.build_args`")
        built = {"build": str(self.home / (self.plain(context) if context else "."))}
        return Setting(built | ({"dockerfile": dockerfile.text} if dockerfile else {}), build.at)

    def words(self, key: str) -> tuple[SourceText, ...]:
        node = self.fields.take(key)
        if isinstance(node, Items):
            words = [one for one in node.items if isinstance(one, Scalar)]
            return tuple(SourceText(self.interpolated(as_text(word), word.at), word.at) for word in words)
        if not isinstance(node, Scalar):
            return ()
        try:
            return tuple(SourceText(self.interpolated(word, node.at), node.at) for word in shlex.split(as_text(node)))
        except ValueError as error:
            self.notes.refuse(node.at, f"`{self.fields.name(key)}`: {str(error).lower()}", "close the quote")
            return ()

    def environment(self) -> Iterator[tuple[str, SourceText]]:
        node = self.fields.take("environment")
        if isinstance(node, Mapping):
            pairs = [(name, value, node.key_at(name)) for name, value in node.entries.items()]
        else:
            listed = node.items if isinstance(node, Items) else ()
            split = [(as_text(one).partition("="), one.at) for one in listed if isinstance(one, Scalar)]
            pairs = [(name, Scalar(value if equals else None, at, value), at) for (name, equals, value), at in split]
        for name, value, at in pairs:
            if isinstance(value, Scalar) and value.data is not None and not self.asks(as_text(value)):
                yield name, SourceText(self.interpolated(as_text(value), at), at)
                continue
            self.notes.left(f"{self.fields.name('environment')}.{name}", at, "it comes from the environment of Compose")

    def volume(self, node: Node) -> Volume | None:
        if isinstance(node, Scalar):
            source, colon, rest = self.interpolated(as_text(node), node.at).partition(":")
            target, _, options = rest.partition(":")
            if not colon:
                return Volume(SourceText(source, node.at))
            is_directory = source.startswith((".", "/", "~"))
            path = self.path(source) if is_directory else None
            return Volume(SourceText(target, node.at), path, "ro" in options.split(","))
        with Fields(node, self.fields.name("volumes"), self.notes, node.at) as fields:
            kind, source_, target_ = fields.text("type"), fields.text("source"), fields.text("target")
            read_only = fields.text("read_only")
            fields.without("bind", "volume")
        if target_ is None:
            return None
        is_bind = kind is not None and kind.text == "bind" and source_ is not None
        path = self.path(self.plain(source_)) if is_bind and source_ else None
        return Volume(
            SourceText(self.plain(target_), target_.at), path, read_only is not None and read_only.text == "true"
        )

    def path(self, source: str) -> str:
        return os.path.normpath(self.home.absolute() / Path(source).expanduser())

    def limits(self) -> None:
        fields = self.fields
        for key, read, setting in (
            ("mem_limit", docker_memory, "memory"),
            ("cpus", cpus, "cpus"),
            ("stop_grace_period", seconds, "stop_grace"),
        ):
            text = fields.text(key)
            given = read(text, self.notes) if text else None
            if given:
                self.settings[setting] = given
        pids = fields.whole("pids_limit")
        if pids:
            self.settings["pids"] = Setting(*pids)
        self.gpus(fields.take("gpus"))
        restart = fields.text("restart")
        if restart:
            self.restart(restart)

    def restart(self, text: SourceText) -> None:
        policy, _, times = text.text.partition(":")
        if policy in _RESTART:
            self.settings["restart"] = Setting(_RESTART[policy], text.at)
            if policy in ("always", "unless-stopped"):
                self.notes.add(text.at, f"`{policy}` becomes `on-failure`: what ended well is not started again")
        elif policy == "on-failure":
            self.settings["restart"] = Setting("on-failure", text.at)
            if times.isdecimal() and 0 < int(times[:6]) <= 1000:
                self.settings["max_restarts"] = Setting(int(times), text.at)
        else:
            self.notes.left(text.text, text.at)

    def deploy(self, deploy: Fields) -> None:
        with deploy:
            deploy.without("mode", "endpoint_mode", "update_config", "rollback_config", "labels")
            replicas = deploy.whole("replicas")
            self.count = replicas[0] if replicas else 1
            with deploy.below("restart_policy") as policy:
                policy.without("delay", "window")
                condition, attempts = policy.text("condition"), policy.whole("max_attempts")
            if condition:
                self.restart(SourceText({"any": "always"}.get(condition.text, condition.text), condition.at))
            if attempts:
                self.settings["max_restarts"] = Setting(*attempts)
            with deploy.below("placement") as placement:
                for node in placement.items("constraints"):
                    self.constraint(node)
            with deploy.below("resources") as resources:
                self.resources(resources)

    def constraint(self, node: Node) -> None:
        text = SourceText(as_text(node), node.at) if isinstance(node, Scalar) else None
        match = re.fullmatch(r"\s*node\.hostname\s*==\s*(\S+)\s*", text.text) if text else None
        if text and match:
            self.host = SourceText(match[1], text.at)
        elif text and text.text.replace(" ", "") != "node.role==manager":
            self.notes.left(text.text, text.at, "say which hosts are in which group")

    def resources(self, resources: Fields) -> None:
        with resources.below("limits") as limits:
            memory, cores, pids = limits.text("memory"), limits.text("cpus"), limits.whole("pids")
        settings = {"memory": docker_memory(memory, self.notes) if memory else None}
        settings["cpus"] = cpus(cores, self.notes) if cores else None
        settings["pids"] = Setting(*pids) if pids else None
        self.settings.update({name: one for name, one in settings.items() if one})
        with resources.below("reservations") as reserved:
            for node in (*reserved.items("devices"), *reserved.items("generic_resources")):
                self.device(node)

    def gpus(self, node: Node | None) -> None:
        """Read Compose's own short form: `all`, or what a reservation lists."""
        for one in node.items if isinstance(node, Items) else ():
            self.device(one)
        if isinstance(node, Scalar):
            self.counted(SourceText(as_text(node), node.at))

    def device(self, node: Node) -> None:
        with Fields(node, "devices", self.notes, node.at) as device:
            device.without("driver", "capabilities")
            count = device.text("count")
            with device.below("discrete_resource_spec") as spec:
                spec.without("kind")
                count = spec.text("value") or count
        self.counted(count or SourceText("all", node.at))

    def counted(self, text: SourceText) -> None:
        word = text.text
        if word in ("all", "-1") or (word.isdecimal() and len(word) < 5):
            self.settings["gpus"] = Setting(int(word) if word.isdecimal() else "all", text.at)
        else:
            self.notes.left(word, text.at, "it is no number of GPUs")

    def plain(self, text: SourceText) -> str:
        return self.interpolated(text.text, text.at)

    def asks(self, text: str) -> bool:
        """Whether a text needs something of Compose's environment."""
        return any(not match["dollar"] and match["how"] not in _WITH_DEFAULT for match in _VARIABLE.finditer(text))

    def interpolated(self, text: str, at: Position) -> str:
        """Return a text as Compose would see it; what it would take from its own environment is told, and left out."""
        unknown: list[str] = []

        def replaced(match: re.Match[str]) -> str:
            if match["dollar"]:
                return "$"
            if match["how"] in _WITH_DEFAULT:
                return match["other"] or ""
            unknown.append(match["plain"] or match["name"])
            return ""

        result = _VARIABLE.sub(replaced, text)
        for name in unknown:
            self.notes.add(at, f"`${printable(name)}` is not carried over: it comes from the environment of Compose")
        return result
