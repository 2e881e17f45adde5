"""`tfprov inventory schema`: what editors need to complete, explain and check what is being written."""

import json

import click


@click.command("schema")
@click.option("--playbook", "kind", flag_value="playbook", help="The schema of playbooks instead.")
@click.option("--vars", "kind", flag_value="vars", help="The schema of files in group_vars/ and host_vars/ instead.")
def schema_command(kind: str | None) -> None:
    """With it in a file, the first line `# yaml-language-server: $schema=FILE` of an inventory is all an editor needs."""
    from tfprov.config.schema.inventory import inventory_schema, variables_schema  # noqa: PLC0415  nobody else needs them
    from tfprov.config.schema.playbook import playbook_schema  # noqa: PLC0415

    made = {"playbook": playbook_schema, "vars": variables_schema, None: inventory_schema}[kind]()
    click.echo(json.dumps(made, indent=2, ensure_ascii=False))
