"""Renders a cluster as the files of a target."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tfprov.errors import InvalidInput, Position, Problem, TfprovError, one_line
from tfprov.images.code import Code
from tfprov.images.code_layer import DIRECTORY
from tfprov.model.cluster import Cluster, Task
from tfprov.model.sections import Image
from tfprov.model.state import Container
from tfprov.model.yaml_node import EncryptedValue, Node, Scalar
from tfprov.model.yaml_node import Mapping as Map
from tfprov.planning import task_args
from tfprov.planning.desired import RoleHost, desired_containers
from tfprov.planning.task_program import RoleImage
from tfprov.planning.tasks import assign_tasks, default_port
from tfprov.render import options
from tfprov.render.dns_names import long_name
from tfprov.render.options import Option, Values
from tfprov.render.quoting import render_templates
from tfprov.render.target import WITH_GPUS, DataPath, Member, RenderInput, RenderRequest, Target, find_target
from tfprov.settings.role_settings import RoleSettings, data_dir, dataset_of, setting_mounts
from tfprov.templating.host_values import is_secret, is_template
from tfprov.templating.magic_vars import add_task_variables
from tfprov.vault.redaction import KeyedHash, is_secret_name
from tfprov.wiring import STANDALONE


def build_request(
    roles: Sequence[RoleSettings], target: Target, settings: Values, codes: Mapping[RoleHost, Code] | None = None
) -> RenderRequest:
    """Return the cluster of `roles` with the addresses and ports of `target`."""
    planned = assign_tasks(roles)
    by_place = {(role.role, role.host): role for role in roles}
    inventory_ports = {
        task.name: by_place[task.role, task.host].values.port or default_port(task.role) for task in planned.tasks
    }
    ports = target.ports(planned, inventory_ports, settings)
    tasks = [
        replace(task, address=target.address(planned.name, task, settings), port=ports[task.name])
        for task in planned.tasks
    ]
    cluster = replace(planned, tasks=tuple(tasks))
    first = {(task.role, task.host): task for task in reversed(tasks)}
    secrets = {place: _secrets(by_place[place], cluster, task) for place, task in first.items()}
    return RenderRequest(
        cluster, by_place, settings, {place: names for place, names in secrets.items() if names}, codes or {}
    )


def unsupported(request: RenderRequest, target: Target) -> Iterator[Problem]:
    """Yield the settings that `target` does not support: images it cannot pull, fetched data, links and code."""
    image = request.first.values.image
    kind = image.kind if image else "none"
    if not request.settings["image"] and kind not in target.images:
        what = "no `image`" if image is None else f"`image.{kind}` is not in a registry"
        fix = f"{'' if image is None else 'push the image to one and '}use `--set image=REGISTRY/NAME:TAG`"
        at = request.first.at("image", kind) if image else request.first.at("image")
        yield Problem(at, f"{what}: {target.name} has to pull it", fix)
    if not (request.settings.get("data_claim") or request.settings.get("data_path")):
        fetching = next((role for role in request.roles.values() if dataset_of(role)), None)
        if fetching is not None:
            data = "path" if fetching.values.data and fetching.values.data.remote else "fetch"
            what = f"`data.{data}` works on tfprov's own hosts only: {target.name} does not fetch data"
            fix = "set `data: {path: …}`"
            if "data_claim" in request.settings:  # a target on Kubernetes
                fix = "use `--set data_claim=CLAIM`, or `--set data_path=/PATH` for a directory that every node has"
            yield Problem(fetching.at("data", data), what, fix)
    if "data_claim" not in request.settings:  # not a target on Kubernetes
        yield from _nfs_problems(request, target)
    if linked := next((role for role in request.roles.values() if role.values.checkpoints.link), None):
        what = f"`checkpoints.link` works on tfprov's own hosts only: {target.name} does not create links"
        fix = "remove it, and have the program save to `{{ checkpoint_dir }}`"
        yield Problem(linked.at("checkpoints", "link"), what, fix)
    for name in ("restart_on", "no_restart_on"):
        if role := next((role for role in request.roles.values() if getattr(role.values, name)), None):
            what = f"`{name}` works on tfprov's own hosts only: {target.name} has rules of its own for restarts"
            yield Problem(role.at(name), what, "remove it")
    if not request.settings["code"]:
        for role in request.roles.values():
            if role.values.code is not None:
                what = f"{target.name} does not deliver `code` to its tasks"
                fix = f"put it into the image, at {DIRECTORY}, and use `--set code=image`"
                yield Problem(role.at("code"), what, fix)


def _nfs_problems(request: RenderRequest, target: Target) -> Iterator[Problem]:
    for role in request.roles.values():
        if number := next((number for number, it in enumerate(role.values.mounts, 1) if it.nfs is not None), 0):
            what = f"`mounts[{number - 1}].nfs` works on tfprov's own hosts and on Kubernetes, and not in {target.name}"
            yield Problem(role.at("mounts", number - 1), what, "mount it on every machine, and use `source`")
            return


def _without_end(request: RenderRequest, target: Target) -> Iterator[Problem]:
    """Yield a problem for bare servers where a task is expected to end."""
    if request.first.values.strategy == STANDALONE and request.settings.get("kind", "Job") == "Job":
        what = f"`strategy: {STANDALONE}` has servers that never end, and {target.name} waits for the end of a task"
        yield Problem(request.first.at("strategy"), what, "use `render kubernetes --set kind=Deployment`")


_NO_HASHES = KeyedHash(lambda: b"")
"""Rendered specs are neither compared nor stored."""
_UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
"""As on tfprov's own hosts: a log has at once what a program prints, and all of it if the program is killed."""


def members(request: RenderRequest) -> tuple[Member, ...]:
    """Return every task as templates see it; InvalidInput carries the inventory's templates that fail."""
    cluster = request.cluster
    directories = {place: role.values.checkpoints.local for place, role in request.roles.items()}
    images = {place: RoleImage(_image(role, request.settings), "", "0.0.0.0") for place, role in request.roles.items()}  # noqa: S104
    containers = desired_containers(
        cluster,
        list(request.roles.values()),
        {},
        lambda task: directories[task.role, task.host],
        images,
        hashed=_NO_HASHES,
    )
    return tuple(_member(container, request) for container in containers)


def _image(role: RoleSettings, settings: Values) -> str:
    image: Image | None = role.values.image
    return str(settings["image"] or (image and image.name) or "")


def _member(container: Container, request: RenderRequest) -> Member:
    task, role, docker_options = container.task, request.role(container.task), container.docker
    assert docker_options is not None, "each task has a container image here"
    wiring_flags = tuple(task_args.wiring_flags(request.cluster, task, role))
    flags = len(container.spec["flags"])
    program = container.argv[: len(container.argv) - flags - len(wiring_flags)]
    secrets = request.secrets.get((task.role, task.host), ())
    chief = request.cluster.chief
    return Member(
        name=long_name(request.cluster.name, task),
        job=task.job,
        index=task.index,
        role=task.role,
        task=task.name,
        address=task.address,
        port=task.port,
        image=docker_options.image,
        program=program,
        wiring_flags=wiring_flags,
        flags=container.argv[len(container.argv) - flags :] if flags else (),
        env=_UNBUFFERED | {name: value for name, value in container.env.items() if name not in secrets},
        secrets=secrets,
        memory=docker_options.memory,
        shm_size=docker_options.shm_size,
        cpus=docker_options.cpus,
        gpus=docker_options.gpus if task.role in WITH_GPUS else 0,
        devices=docker_options.devices,
        pids=docker_options.pids,
        ulimits=docker_options.ulimits,
        read_only=docker_options.read_only,
        mounts=setting_mounts(role),
        data=DataPath(role.values.data.directory or "", role.values.data.to)
        if role.values.data and role.reads_data
        else None,
        checkpoint_dir=container.checkpoint_dir,
        files_of=long_name(request.cluster.name, chief) if task.reads else None,
        code=request.codes.get((task.role, task.host)) if request.settings["code"] == "carried" else None,
        workdir=DIRECTORY if role.values.code is not None else None,
        restart=container.restart,
        max_restarts=container.max_restarts,
        start_timeout=container.start_timeout,
        stop_grace=container.stop_grace,
        ready=container.ready,
        is_chief=task == chief,
        serves=task.serves,
    )


def _secrets(role: RoleSettings, cluster: Cluster, task: Task) -> tuple[str, ...]:
    """Return the variables whose values are secret: encrypted, computed from a secret, or with a secret's name."""
    env = role.node.get("env")
    if not isinstance(env, Map) or not env.entries:
        return ()
    named = {name for name in env.entries if is_secret_name(name) and name not in role.values.public_env}
    computed = [name for name, node in env.entries.items() if not _is_plain(node)]
    data = data_dir(role)
    cluster_values = task_args.cluster_variables(cluster, task)
    variables = add_task_variables(
        role.variables, cluster.name, task.name, role.values.checkpoints.local, data, cluster_values=cluster_values
    )
    secret = {name for name in computed if is_secret(env.entries[name], variables)}
    return tuple(name for name in env.entries if name in named | secret)


def _is_plain(node: Node) -> bool:
    """Whether a value is unencrypted text without a template."""
    return (
        isinstance(node, Scalar)
        and not node.secret
        and not isinstance(node.data, EncryptedValue)
        and not is_template(node.data)
    )


_IMAGE = Option("image", "", "the image of all tasks, such as registry.example.com/train:1.0", options.image)


def options_of(target: Target) -> Mapping[str, Option]:
    """Return all options of `target`: the common ones and its own."""
    words = ("carried", "image") if target.carries_code else ("image",)
    code = Option(
        "code",
        "carried" if target.carries_code else "",
        "where `code` and tfprov's runtime come from: `image`: the image has both"
        + ("; `carried`: the rendered files bring them" if target.carries_code else ""),
        options.choice(*words),
    )
    return {**{option.name: option for option in (_IMAGE, code)}, **target.options}


def render_cluster(
    roles: Sequence[RoleSettings],
    target: str,
    settings: Sequence[str],
    never_code: Callable[[], frozenset[Path]],
    template_dir: Path | None,
) -> dict[str, str]:
    """Return the files of `target`, with the code packed if the target carries it.

    `settings` are the `name=value` texts of `--set`; `never_code` returns the files that are never part of `code:`.
    """
    from tfprov.engine.artifacts import pack_all  # noqa: PLC0415  only targets that carry code need it

    chosen = find_target(target)
    carried = options.parse_settings(chosen.name, options_of(chosen), settings)["code"] == "carried"
    codes = pack_all(roles, never_code()) if carried else {}
    return render(roles, chosen, settings, codes=codes, template_dir=template_dir)


def render(
    roles: Sequence[RoleSettings],
    target: Target,
    options_set: Sequence[str] = (),
    *,
    codes: Mapping[RoleHost, Code] | None = None,
    template_dir: Path | None = None,
) -> dict[str, str]:
    """Return the text of every file of `target` for the cluster of `roles`.

    `options_set` are the `name=value` texts of `--set`, `codes` the packed `code:` of each role on each host, for targets
    that carry it. InvalidInput carries every setting that the target does not support, with its line.
    """
    settings = options.parse_settings(target.name, options_of(target), options_set)
    roles = [target.adapt_role(role, settings) for role in roles]
    request = build_request(roles, target, settings, codes)
    problems = [*_without_end(request, target), *unsupported(request, target), *target.problems(request)]
    if problems:
        raise InvalidInput(problems)
    settings = target.complete_settings(request)
    request = replace(request, settings=settings)
    rendering = RenderInput(request.cluster, members(request), settings, roles[0].values.strategy, request)
    values = {
        "rendering": rendering,
        "cluster": request.cluster,
        "name": rendering.name,
        "members": rendering.members,
        "chief": rendering.chief,
        "settings": settings,
        **target.values(rendering),
    }
    files = render_templates(target.templates, values, template_dir)
    try:
        target.check(files)
    except ValueError as error:
        if template_dir is None:
            raise TfprovError(f"{target.name}: {one_line(str(error))}", "this is a bug in tfprov") from None
        at = Position(str(template_dir))
        raise InvalidInput([Problem(at, one_line(str(error)), "correct the template")]) from None
    return files
