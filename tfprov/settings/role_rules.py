"""Rules about the settings of one role that exclude or need each other, each reported at the line to change."""

import shlex
from collections.abc import Iterator

from tfprov.errors import Problem, printable
from tfprov.filesystems.urls import scheme_of
from tfprov.model.delivery import Deliver
from tfprov.model.sections import Image
from tfprov.model.setting_types import CONTAINER_ONLY, implied_wiring
from tfprov.model.settings import Settings
from tfprov.model.storage import Data, DataSource
from tfprov.model.validators import InvalidValue, check_file_name
from tfprov.model.yaml_node import Mapping, Node, Scalar, find
from tfprov.wiring import FLAGS
from tfprov.yamltext.yaml11 import lint_keys, lint_values

_DATA_KINDS = ("path", "fetch")


def check_role_settings(node: Mapping, values: Settings, *, whole: bool) -> Iterator[Problem]:
    """Yield the problems of `values`, which were read from `node`; unless `whole`, settings may be missing."""
    yield from _reserved(node, values)
    yield from _chief_by_flags(node, values)
    yield from check_restart_codes(node, values, whole=whole)
    yield from check_notify(node, values)
    yield from check_serving(node, values)
    yield from check_container_settings(node, values, whole=whole)


def check_restart_codes(node: Mapping, values: Settings, *, whole: bool) -> Iterator[Problem]:
    """Yield the problems of exit codes that decide on restarts."""
    both = sorted({*values.restart_on} & {*values.no_restart_on})
    if both:
        what = f"`restart_on` and `no_restart_on` both have {both[0]}"
        yield Problem(find(node, ["no_restart_on"])[1], what, "remove it from one of them")
    for name in ("restart_on", "no_restart_on") if whole else ():
        if getattr(values, name) and name in node.entries and values.read_only:
            what = f"`{name}` needs a file system that can be written to: `read_only` leaves no mark of an exit code"
            yield Problem(find(node, [name])[1], what, "remove one of them")


def check_notify(node: Mapping, values: Settings) -> Iterator[Problem]:
    """Yield the problems of `notify`."""
    for number, one in enumerate(values.notify):
        if (one.command is None) == (one.url is None):
            both = "has both command and url" if one.url else "needs one of command, url"
            fix = "make two entries of them" if one.url else "for example `{command: [./notify.sh]}`"
            yield Problem(find(node, ["notify", number])[1], f"`notify[{number}]` {both}", fix)
        if isinstance(one.command, str) and not _has_words(one.command):
            at = find(node, ["notify", number, "command"])[1]
            yield Problem(at, f"`notify[{number}].command` cannot be split into words", "write it as a list")


def check_serving(node: Mapping, values: Settings) -> Iterator[Problem]:
    """Yield a problem for a URL of models that the server cannot read."""
    path = values.serving.model_base_path
    if scheme_of(path) is not None and values.serving.server == "tfprov":
        what = f"`serving.model_base_path`: the server of tfprov reads a directory, and not {printable(path)}"
        fix = "set `server: tensorflow_serving`, or name a directory"
        yield Problem(find(node, ["serving", "model_base_path"])[1], what, fix)


def _has_words(command: str) -> bool:
    try:
        return bool(shlex.split(command))
    except ValueError:  # a quote that is not closed
        return False


def lint_settings(node: Mapping) -> Iterator[Problem]:
    """Yield values that YAML 1.1 reads otherwise than they look, and such keys of flags, variables and build arguments."""
    yield from lint_values(node)
    for path in (["flags"], ["env"], ["image", "build_args"]):
        names = find(node, path)[0]
        if isinstance(names, Mapping) and names is not find(node, path[:-1])[0]:
            yield from lint_keys(names)
            if path != ["flags"]:  # a flag keeps its spelling
                yield from lint_values(names, as_text=True)


def _reserved(node: Mapping, values: Settings) -> Iterator[Problem]:
    """Yield flags that the wiring also sets: the program would get them twice, and take the last."""
    all_names = [values.flag_names.get(name, name) for name in FLAGS] if values.by_flags else []
    names = [name for name in all_names if name]
    for number, word in enumerate(values.command or ()):
        if word.partition("=")[0] in {f"--{name}" for name in names}:
            what = f"`{word.partition('=')[0]}` is set by tfprov for every task"
            yield Problem(find(node, ["command", number])[1], what, "remove it, or set `wiring: tf_config`")
    for name in values.flags:
        if name in names:
            yield _repeated_flag(node, name)
    for flag, name in values.flag_names.items():
        if names.count(name) > 1:
            at = find(node, ["wiring", "flags", flag])[1]
            yield Problem(at, f"`wiring.flags.{flag}` repeats the name `--{name}`", "give each flag a name of its own")


def check_default_flags(node: Mapping) -> Iterator[Problem]:
    """Yield flags that the wiring also sets, of settings that are invalid for other reasons: all are reported at once."""
    wiring, strategy, flags = scalar_text(node.get("wiring")), scalar_text(node.get("strategy")), node.get("flags")
    by_flags = strategy != "single" and (wiring or implied_wiring(strategy)) == "flags"
    if by_flags and not isinstance(node.get("wiring"), Mapping) and isinstance(flags, Mapping):
        yield from (_repeated_flag(node, name) for name in flags.entries if name in FLAGS)


def _repeated_flag(node: Mapping, flag: str) -> Problem:
    what = f"`flags.{flag}` is set by tfprov for every task"
    return Problem(find(node, ["flags", flag])[1], what, "remove it, or set `wiring: tf_config`")


def _chief_by_flags(node: Mapping, values: Settings) -> Iterator[Problem]:
    """Yield a problem for a strategy that needs a chief, which the flags cannot name."""
    if values.strategy in ("in_graph", "parameter_server") and values.wiring != "tf_config":
        what = f"`wiring: flags` cannot name the chief that `strategy: {values.strategy}` needs"
        yield Problem(find(node, ["wiring"])[1], what, "remove it: programs of this strategy read TF_CONFIG")


def scalar_text(node: Node | None) -> str | None:
    """Return the text of a scalar; None for other nodes."""
    return str(node.data) if isinstance(node, Scalar) else None


def check_data(node: Mapping, data: Data, *, whole: bool) -> Iterator[Problem]:
    """Yield the problems of `data`, which was read from `node`; unless `whole`, settings may be missing."""
    kinds = [name for name in _DATA_KINDS if getattr(data, name) is not None]
    if not kinds and whole:
        at = find(node, ["data"])[1]
        yield Problem(at, "`data` needs one of path, fetch", "for example `data: {path: /data/mnist}`")
    if len(kinds) > 1:
        written = node.get("data")
        # Keys of higher precedence come last.
        last = [name for name in written.entries if name in kinds][-1] if isinstance(written, Mapping) else kinds[-1]
        at = find(node, ["data", last])[1]
        yield Problem(at, "`data` has both path and fetch", "keep one, or set the other to null")
    yield from _names(node, data.fetch or ())


def _names(node: Mapping, sources: "list[DataSource] | tuple[()]") -> Iterator[Problem]:
    seen: set[str] = set()
    for number, source in enumerate(sources):
        at = find(node, ["data", "fetch", number, "name" if source.name else "url"])[1]
        if not source.name and (reason := _name_error(source)):
            yield Problem(at, reason, "give it a `name`")
        elif source.file in seen:
            what = f"`data.fetch` has two files called `{printable(source.file)}`"
            yield Problem(at, what, "give one of them another `name`")
        seen.add(source.file)


def _name_error(source: DataSource) -> str | None:
    """Return why the last part of a URL cannot be the name of its file; None if it can."""
    try:
        check_file_name(source.file)
    except InvalidValue:
        ending = f"in `{printable(source.file)}`" if source.file else "without a name"
        return f"`data.fetch` has an address that ends {ending}, which cannot be the name of a file"
    return None


ANYWHERE = "0.0.0.0"  # noqa: S104  it is refused here
CODE = "/code"
"""The directory of the training program in every container."""

_KINDS = ("build", "name", "archive")
_FOR_BUILD = ("dockerfile", "build_args", "build_on", "ca_bundle", "pip_conf")


def check_container_settings(node: Mapping, values: Settings, *, whole: bool) -> Iterator[Problem]:
    """Yield the problems of `values`, which were read from `node`; unless `whole`, settings may be missing."""
    if values.image is not None:
        yield from _image(node, values.image, whole=whole)
    if values.data is not None:
        yield from check_data(node, values.data, whole=whole)
    if whole and values.image is not None and values.image.name is not None:
        for name in ("from_hosts", "compress"):
            if getattr(values.deliver, name) != Deliver.model_fields[name].default:
                what = f"`deliver.{name}` is for images that this machine delivers"
                what += "; hosts pull `image.name` from its registry"
                yield Problem(find(node, ["deliver", name])[1], what, "remove it")
    if values.runtime == "docker":
        yield from _docker(node, values, whole=whole)
        if values.python is not None and whole:
            fix = "remove it, and name the Python of the image in `command`"
            yield Problem(find(node, ["python"])[1], "`python` is for `runtime: process`", fix)
        return
    if values.image is not None:
        yield Problem(
            find(node, ["image"])[1], "`image` is for `runtime: docker`", "remove `runtime: process`, or `image`"
        )
    for name in CONTAINER_ONLY if whole else ():
        if name in node.entries and getattr(values, name):
            fix = "remove it" if values.image else "give an `image`, or remove it"
            yield Problem(find(node, [name])[1], f"`{name}` is for `runtime: docker`", fix)


def _image(node: Mapping, image: Image, *, whole: bool) -> Iterator[Problem]:
    kinds = [name for name in _KINDS if getattr(image, name) is not None]
    if not kinds and whole:
        fix = "for example `image: {build: ../images/train}`"
        yield Problem(find(node, ["image"])[1], "`image` needs one of build, name, archive", fix)
    written = node.get("image")
    if len(kinds) > 1:
        # Keys of higher precedence come last.
        last = [name for name in written.entries if name in kinds][-1] if isinstance(written, Mapping) else kinds[-1]
        at = find(node, ["image", last])[1]
        both = f"{'both' if len(kinds) == 2 else 'all of'} {', '.join(kinds[:-1])} and {kinds[-1]}"
        yield Problem(at, f"`image` has {both}", "keep one, or set the others to null")
    for name in _FOR_BUILD:
        if kinds and "build" not in kinds and isinstance(written, Mapping) and name in written.entries:
            at = find(node, ["image", name])[1]
            yield Problem(
                at, f"`image.{name}` is for an image that is built", f"remove it, or give `build` for `{kinds[0]}`"
            )


def _docker(node: Mapping, values: Settings, *, whole: bool) -> Iterator[Problem]:
    if values.image is None and whole:
        fix = "for example `image: {build: ../images/train}`"
        yield Problem(find(node, ["runtime"])[1], "`runtime: docker` needs an `image`", fix)
    if values.bind == ANYWHERE and not values.allow_insecure_network and whole:
        what = "`bind: 0.0.0.0` is for all networks, and anyone who reaches a TensorFlow port can run code"
        fix = "bind an address of the cluster's network, or set `allow_insecure_network: true`"
        yield Problem(find(node, ["bind"])[1], what, fix)
    if values.network == "host" and not values.allow_insecure_network and whole:
        what = "`network: host` opens ports in all networks, and anyone who reaches a TensorFlow port can run code"
        fix = "remove it, or set `allow_insecure_network: true`"
        yield Problem(find(node, ["network"])[1], what, fix)
    directory = values.checkpoints.local
    if _overlap(directory, CODE):
        at = find(node, ["checkpoints", "dir"])[1]
        yield Problem(at, f"`checkpoints.dir` overlaps the code in {CODE}", "for example `dir: /checkpoints`")
    if values.read_only and values.checkpoints.link and values.code is None and whole:
        at = find(node, ["checkpoints", "link"])[1]
        yield Problem(at, "`checkpoints.link` needs a working directory that can be written to", "remove `read_only`")
    yield from _mounts(node, values)


def _mounts(node: Mapping, values: Settings) -> Iterator[Problem]:
    taken = {"the code": CODE, "the checkpoints": values.checkpoints.local}
    if values.data is not None:
        for what, directory in taken.items():
            if _overlap(values.data.to, directory):
                message = f"`data.to` overlaps {what} in {printable(directory)}"
                yield Problem(find(node, ["data", "to"])[1], message, "choose another directory")
        taken["the data"] = values.data.to
    seen: set[str] = set()
    for number, mount in enumerate(values.mounts):
        if (mount.source is None) == (mount.nfs is None):
            both = "has both source and nfs" if mount.source else "needs one of source, nfs"
            fix = "keep one" if mount.source else "for example `{source: /data/mnist, target: /data}`"
            yield Problem(find(node, ["mounts", number])[1], f"`mounts[{number}]` {both}", fix)
        at = find(node, ["mounts", number, "target"])[1]
        name = f"`mounts[{number}].target`"
        for what, directory in taken.items():
            if _overlap(mount.target, directory):
                yield Problem(at, f"{name} overlaps {what} in {printable(directory)}", "choose another directory")
        if _normalize(mount.target) in seen:
            yield Problem(
                at, f"{name} is `{printable(mount.target)}` a second time", "give each mount its own directory"
            )
        seen.add(_normalize(mount.target))


def _normalize(path: str) -> str:
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def _overlap(left: str, right: str) -> bool:
    """Whether two directories are the same, or one is inside the other."""
    first, second = f"{_normalize(left)}/", f"{_normalize(right)}/"
    return first.startswith(second) or second.startswith(first)
