"""Reads a mapping of a foreign file key by key, and notes the keys that were not read."""

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from types import TracebackType

from tfprov.errors import Position, printable
from tfprov.importing.identify import Notes, Setting, SourceText
from tfprov.model.field_types import DEVICE
from tfprov.model.setting_types import LIMITS
from tfprov.model.yaml_node import Items, Node, Scalar
from tfprov.model.yaml_node import Mapping as Map

_EMPTY = Map()
_TRUE, _FALSE = ("true", "yes", "on", "y"), ("false", "no", "off", "n")
"""The words that the engines read as true and as false, in any case."""


class Fields:
    """The entries of `node`; a node that is no mapping counts as empty, with a problem. `path` is its name in messages.

    `read` returns the text of a scalar, as the engine reads it. As a context manager it notes the entries that were not
    read when the block ends.
    """

    def __init__(
        self, node: Node | None, path: str, notes: Notes, at: Position, read: Callable[[Scalar], str] | None = None
    ) -> None:
        self.at = node.at if node is not None else at
        self.path, self.notes, self.read = path, notes, read or as_text
        self._node = node if isinstance(node, Map) else _EMPTY
        self._remaining = dict(self._node.entries)
        if node is not None and not isinstance(node, Map) and not _is_null(node):
            notes.refuse(node.at, f"`{printable(path)}` must be a mapping", "correct the file")

    def __enter__(self) -> "Fields":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.drop_rest()

    def pop(self, key: str) -> Node | None:
        """Return the value at `key`; None for a missing key or null."""
        node = self._remaining.pop(key, None)
        return None if node is None or _is_null(node) else node

    def position(self, key: str) -> Position:
        """Return the position of `key`."""
        return self._node.key_at(key)

    def path_of(self, key: str) -> str:
        """Return the path of `key` for messages."""
        return f"{self.path}.{key}" if self.path else key

    def text(self, key: str) -> SourceText | None:
        """Return a scalar as text."""
        node = self.pop(key)
        if node is None:
            return None
        if not isinstance(node, Scalar):
            self.notes.refuse(node.at, f"`{printable(self.path_of(key))}` must be a single value", "write one")
            return None
        return self.text_of(node)

    def text_of(self, node: Node) -> SourceText | None:
        """Return a scalar of a list as text; None, too, where only a variable is empty, which `read` has noted."""
        if not isinstance(node, Scalar):
            return None
        text = self.read(node)
        return SourceText(text, node.at) if text or not as_text(node) else None

    def boolean(self, key: str) -> bool:
        """Return whether a scalar is true; what is neither true nor false is noted."""
        text = self.text(key)
        word = text.text.lower() if text else ""
        if text and word not in (*_TRUE, *_FALSE):
            self.notes.drop(f"{self.path_of(key)}: {text.text}", text.at, "write `true` or `false`")
        return word in _TRUE

    def integer(self, key: str, *, signed: bool = False) -> tuple[int, Position] | None:
        """Return a whole number, which is below 0 only where it is `signed`."""
        text = self.text(key)
        if text is None:
            return None
        digits = text.text.removeprefix("-") if signed else text.text
        if not digits.isdecimal() or len(digits) > 9:
            self.notes.refuse(
                text.at, f"`{printable(self.path_of(key))}` must be a whole number", "write one, such as 1"
            )
            return None
        return int(text.text), text.at

    def mapping(self, key: str) -> "Fields":
        """Return the mapping at `key`, or an empty one."""
        return Fields(self.pop(key), self.path_of(key), self.notes, self.position(key), self.read)

    def below(self, path: str, node: Node) -> "Fields":
        """Return the entries of a value of this mapping, whose scalars are read in the same way."""
        return Fields(node, path, self.notes, node.at, self.read)

    def items(self, key: str) -> tuple[Node, ...]:
        """Return the items of the list at `key`, if there is one."""
        node = self.pop(key)
        if node is not None and not isinstance(node, Items):
            self.notes.refuse(
                node.at, f"`{printable(self.path_of(key))}` must be a list", "write one item per line, with dashes"
            )
        return node.items if isinstance(node, Items) else ()

    def entries(self) -> Iterator[tuple[str, Node]]:
        """Yield the unread entries, which count as read then."""
        while self._remaining:
            key = next(iter(self._remaining))
            yield key, self._remaining.pop(key)

    def ignore(self, *keys: str) -> None:
        """Mark keys as read that an inventory does not need, without a note."""
        for key in keys:
            self._remaining.pop(key, None)

    def drop(self, reasons: Mapping[str, str]) -> None:
        """Note, with the reason, keys that are not carried over."""
        for key, reason in reasons.items():
            if self.pop(key) is not None:
                self.notes.drop(self.path_of(key), self.position(key), reason)

    def drop_rest(self) -> None:
        """Note the unread keys."""
        for key, node in self.entries():
            if not _is_null(node):
                self.notes.drop(self.path_of(key), self.position(key))


def as_text(node: Scalar) -> str:
    """Return a scalar as its source text, as the engine reads it: `true` stays `true`."""
    return node.text  # empty for a secret, which only inventories have


def _is_null(node: Node) -> bool:
    return isinstance(node, Scalar) and node.data is None


IN_HOST_NETWORK = "a task's own port is published; `network: host` is for libraries that open further ports"
"""The note on a task in the network of its host, which an inventory has to allow."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108  where containers have it


_SAME_DEVICE = "`devices` has paths below /dev, which are the same in the container, to be read and written"
_NVIDIA = "nvidia.com/gpu="
_ONE_NUMBER = "`ulimits` has one number for each of the engine's limits"
_LIMIT = re.compile(r"-1|[0-9]{1,12}")


def device_settings(fields: Fields, notes: Notes) -> dict[str, Setting]:
    """Read the keys `devices` and `ulimits` of a service."""
    settings: dict[str, Setting] = {}
    devices = [path for node in fields.items("devices") if (path := _device(node, fields))]
    if devices:
        settings["devices"] = Setting(devices, fields.position("devices"))
    limits: dict[str, int] = {}
    named = fields.mapping("ulimits")
    for name, node in named.entries():
        # One number, or a soft and a hard one.
        numbers = {
            fields.read(one)
            for one in (node.entries.values() if isinstance(node, Map) else [node])
            if isinstance(one, Scalar)
        }
        if name in LIMITS and len(numbers) == 1 and _LIMIT.fullmatch(number := numbers.pop()):
            limits[name] = int(number)
        else:
            notes.drop(named.path_of(name), named.position(name), _ONE_NUMBER)
    if limits:
        settings["ulimits"] = Setting(limits, fields.position("ulimits"))
    return settings


def _device(node: Node, fields: Fields) -> str | None:
    """Return a device that has the same path in the container; note any other."""
    path, word = fields.path_of("devices"), fields.text_of(node)
    if isinstance(node, Scalar) and word is None:  # a variable without a value
        return None
    text = word.text if word else ""
    if isinstance(node, Map):
        with fields.below(path, node) as device:
            words = [device.text(key) for key in ("source", "target", "permissions")]
        text = ":".join(word.text for word in words if word)
    source, *rest = text.split(":")
    if re.fullmatch(DEVICE.pattern, source) and rest in ([], [source], [source, "rw"], [source, "rwm"]):
        return source
    fields.notes.drop(text or path, node.at, "set `gpus`" if text.startswith(_NVIDIA) else _SAME_DEVICE)
    return None


def security_settings(pod: Fields, container: Fields, *, is_ours: bool) -> dict[str, Setting]:
    """Read the security context of a pod, and that of its container, whose values win; note the rest of both."""
    settings: dict[str, Setting] = {}
    ids: dict[str, SourceText] = {}
    for context in (pod, container):
        with context, context.mapping("capabilities") as capabilities:
            capabilities.ignore("drop")
            capabilities.drop({"add": "tfprov's containers have no capabilities"})
            ids |= {key: text for key in ("runAsUser", "runAsGroup") if (text := context.text(key))}
            if context.boolean("readOnlyRootFilesystem"):
                settings["read_only"] = Setting(True, context.position("readOnlyRootFilesystem"))
            for key in ("privileged", "allowPrivilegeEscalation"):
                if context.boolean(key):
                    why = "tfprov's containers have no privileges"
                    context.notes.drop(context.path_of(key), context.position(key), why)
            if is_ours:
                context.ignore("runAsNonRoot", "fsGroup", "fsGroupChangePolicy", "seccompProfile")
            context.drop({"runAsNonRoot": "`tfprov check` warns about root"})
    user, group = ids.get("runAsUser"), ids.get("runAsGroup")
    if user:
        settings["user"] = Setting(f"{user.text}:{group.text}" if group else user.text, user.at)
    elif group:
        pod.notes.drop("runAsGroup", group.at, "set `user` to a user, a colon and this group")
    return settings


def note_directory(fields: Fields, key: str, notes: Notes, *, is_ours: bool) -> None:
    """Note a working directory, which an inventory does not set; that of files which tfprov has rendered is `code`."""
    if (directory := fields.text(key)) and not is_ours:
        fix = "a task starts in the directory of its image, or in `code`: write whole paths in `command`, or set `code`"
        notes.drop(fields.path_of(key), directory.at, fix)


_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([EPTGMk]i?|Ki|m)?")
_POWERS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_DOCKER = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([bkmgtBKMGT])?(?:i?[bB])?")
_DURATION = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,8})m)?(?:([0-9]{1,8})(?:\.[0-9]+)?s)?")


def quantity(text: SourceText) -> Decimal | None:
    """Return a Kubernetes quantity, such as `500m` or `4Gi`."""
    match = _QUANTITY.fullmatch(text.text)
    if match is None:
        return None
    unit = match[2] or ""
    if unit == "m":
        return Decimal(match[1]) / 1000
    base = 1024 if unit.endswith("i") else 1000
    return Decimal(match[1]) * (base ** _POWERS[unit[0]] if unit else 1)


def kubernetes_memory(text: SourceText, notes: Notes) -> Setting | None:
    """Convert a Kubernetes memory limit."""
    amount = quantity(text)
    return _memory(text, notes, None if amount is None else int(amount))


def docker_memory(text: SourceText, notes: Notes) -> Setting | None:
    """Convert a Docker memory limit."""
    match = _DOCKER.fullmatch(text.text)
    if match is None:
        return _memory(text, notes, None)
    power = "bkmgt".index((match[2] or "").lower())  # 0 without a unit
    return _memory(text, notes, int(Decimal(match[1]) * 1024**power))


def _memory(text: SourceText, notes: Notes, amount: int | None) -> Setting | None:
    if amount is None:
        notes.drop(text.text, text.at, "not an amount of memory")
        return None
    for power, unit in ((3, "g"), (2, "m"), (1, "k")):
        if amount and amount % 1024**power == 0:
            return Setting(f"{amount // 1024**power}{unit}", text.at)
    return Setting(f"{amount}b", text.at)


def cpus(text: SourceText, notes: Notes) -> Setting | None:
    """Convert a number of CPUs."""
    amount = quantity(text)
    if amount is None:
        notes.drop(text.text, text.at, "not a number of CPUs")
        return None
    return Setting(int(amount) if amount == int(amount) else float(amount), text.at)


def seconds(text: SourceText, notes: Notes) -> Setting | None:
    """Convert a duration such as `1m30s`, or a bare number of seconds."""
    if text.text.isdecimal() and len(text.text) < 9:
        return Setting(int(text.text), text.at)
    match = _DURATION.fullmatch(text.text)
    if match is None or not any(match.groups()):
        notes.drop(text.text, text.at, "not a duration in whole seconds")
        return None
    hours, minutes, rest = (int(part or 0) for part in match.groups())
    return Setting(hours * 3600 + minutes * 60 + rest, text.at)
