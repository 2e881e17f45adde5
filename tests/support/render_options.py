"""A text with the options of what is rendered filled in, as `render --set` does it."""

from pathlib import Path

from tfprov.render.quoting import fill


def filled(directory: Path, template: str, **values: object) -> str:
    (directory / "kubernetes.yml.j2").write_text(template)
    return fill({"out": "kubernetes.yml.j2"}, values, directory)["out"]
