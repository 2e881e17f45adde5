"""Render a template from its text."""

from pathlib import Path

from tfprov.render.quoting import render_templates


def filled(directory: Path, template: str, **values: object) -> str:
    (directory / "kubernetes.yml.j2").write_text(template)
    return render_templates({"out": "kubernetes.yml.j2"}, values, directory)["out"]
