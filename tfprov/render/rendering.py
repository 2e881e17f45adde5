"""The door of this package: what an inventory says, as the files of a target."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tfprov.config.settings.role_settings import RoleSettings
from tfprov.delivery.code import Code
from tfprov.errors import InvalidInput, Position, Problem, TfprovError, one_line
from tfprov.planning.desired import Place
from tfprov.render import options
from tfprov.render.members import ask, members, unfit
from tfprov.render.options import Option
from tfprov.render.target import Rendering, Target
from tfprov.render.templating import fill

_IMAGE = Option("image", "", "the image of all tasks, such as registry.example.com/train:1.0", options.image)


def options_of(target: Target) -> Mapping[str, Option]:
    """Return everything that `--set` can say about `target`: what is common to all, and its own."""
    own = target.options
    carried = "carried" if target.carries_code else "unsaid"
    words = ("carried", "image") if target.carries_code else ("image",)
    code = Option(
        "code",
        carried,
        "where `code` and tfprov's runtime come from: `image`, which has both"
        + ("; `carried`, with what is written here" if target.carries_code else ""),
        options.choice(*words),
    )
    return {**{option.name: option for option in (_IMAGE, code)}, **own}


def render(
    roles: Sequence[RoleSettings],
    target: Target,
    given: Sequence[str] = (),
    *,
    codes: Mapping[Place, Code] | None = None,
    template_dir: Path | None = None,
) -> dict[str, str]:
    """Return the text of every file that `target` has for the cluster in `roles`.

    `given` are the texts of `--set`, `codes` the packed `code:` of each role on each host, for targets that carry it.
    InvalidInput carries everything that the target cannot do, each at its line of the inventory.
    """
    settings = options.settle(target.name, options_of(target), given)
    roles = [target.adapted(role, settings) for role in roles]
    asked = ask(roles, target, settings, codes)
    problems = [*unfit(asked, target), *target.problems(asked)]
    if problems:
        raise InvalidInput(problems)
    settings = target.settled(asked)
    asked = replace(asked, settings=settings)
    ready = members(asked)
    rendering = Rendering(asked.cluster, ready, settings, roles[0].values.strategy, asked)
    values = {
        "rendering": rendering,
        "cluster": asked.cluster,
        "name": rendering.name,
        "members": ready,
        "chief": rendering.chief,
        "settings": settings,
        **target.values(rendering),
    }
    files = fill(target.templates, values, template_dir)
    try:
        target.check(files)
    except ValueError as error:
        if template_dir is None:
            raise TfprovError(f"{target.name}: {one_line(str(error))}", "this is a fault of tfprov's") from None
        at = Position(str(template_dir))
        raise InvalidInput([Problem(at, one_line(str(error)), "correct the template")]) from None
    return files
