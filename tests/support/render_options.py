"""Fill in the options of a rendered text, as `render --set` does."""

from pathlib import Path

from tfprov.render.quoting import fill


def filled(directory: Path, template: str, **values: object) -> str:
    (directory / "kubernetes.yml.j2").write_text(template)
    return fill({"out": "kubernetes.yml.j2"}, values, directory)["out"]
