"""What does not go together under `data:`, each at the line that is to be changed."""

from collections.abc import Iterator

from tfprov.errors import Problem, shown
from tfprov.model.checks import Wrong, file_name
from tfprov.model.node import Mapping, find
from tfprov.model.parts import Data, DataSource

_KINDS = ("path", "fetch")


def data_at_odds(node: Mapping, data: Data, *, whole: bool) -> Iterator[Problem]:
    """Yield what is wrong with `data`, which was read from `node`; unless `whole`, nothing that could be elsewhere."""
    given = [name for name in _KINDS if getattr(data, name) is not None]
    if not given and whole:
        at = find(node, ["data"])[1]
        yield Problem(at, "`data` needs one of path, fetch", "for example `data: {path: /data/mnist}`")
    if len(given) > 1:
        written = node.get("data")
        # What comes from a place of higher precedence stands behind what that place adds to.
        last = [name for name in written.entries if name in given][-1] if isinstance(written, Mapping) else given[-1]
        at = find(node, ["data", last])[1]
        yield Problem(at, "`data` has both path and fetch", "keep one, or set the other to null")
    yield from _names(node, data.fetch or ())


def _names(node: Mapping, sources: "list[DataSource] | tuple[()]") -> Iterator[Problem]:
    seen: set[str] = set()
    for number, source in enumerate(sources):
        at = find(node, ["data", "fetch", number, "name" if source.name else "url"])[1]
        if not source.name and (reason := _unnamed(source)):
            yield Problem(at, reason, "give it a `name`")
        elif source.file in seen:
            what = f"`data.fetch` has two files called `{shown(source.file)}`"
            yield Problem(at, what, "give one of them another `name`")
        seen.add(source.file)


def _unnamed(source: DataSource) -> str | None:
    """Say why a file cannot be called what its address ends in."""
    try:
        file_name(source.file)
    except Wrong:
        ending = f"in `{shown(source.file)}`" if source.file else "without a name"
        return f"`data.fetch` has an address that ends {ending}, which cannot be the name of a file"
    return None
