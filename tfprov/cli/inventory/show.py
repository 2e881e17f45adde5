"""`tfprov inventory list`, `host` and `graph`, which print what `ansible-inventory` prints, and `schema`."""

import json
import sys
from typing import Any

import click

from tfprov.cli.escape_sequences import json_screened, write_document
from tfprov.cli.options import inventory_of, show_secrets_option, source_options
from tfprov.cli.printing.json_text import dumps
from tfprov.cli.shells import values
from tfprov.errors import Usage, printable
from tfprov.inventory.ansible_output import AnsibleOutput, OutputFormat, VaultValue
from tfprov.inventory.host_patterns import match_hosts

_limit = click.option("-l", "--limit", metavar="PATTERN", shell_complete=values.patterns, help="Only these hosts.")
_yaml = click.option("-y", "--yaml", "as_yaml", is_flag=True, help="Print YAML instead of JSON.")
_export = click.option(
    "--export", is_flag=True, help="Print the own variables of each group and host, as input for another inventory."
)


@click.command("list")
@_export
@_yaml
@_limit
@show_secrets_option
@source_options
def list_command(export: bool, as_yaml: bool, limit: str | None, show_secrets: bool, **options: Any) -> None:
    """Templates are not rendered, and encrypted values not decrypted; other secrets are masked."""
    inventory = inventory_of(options)
    hosts = inventory.members("all")
    if limit is not None:
        chosen = frozenset(match_hosts(inventory, limit))
        hosts = tuple(host for host in hosts if host in chosen)
    listing = AnsibleOutput(
        inventory, OutputFormat.YAML if as_yaml else OutputFormat.LIST, export=export, show_secrets=show_secrets
    )
    _print(listing.as_yaml(hosts) if as_yaml else listing.as_json(hosts), as_yaml=as_yaml)


@click.command("host")
@click.argument("name", shell_complete=values.hosts)
@_export
@_yaml
@_limit
@show_secrets_option
@source_options
def host_command(name: str, export: bool, as_yaml: bool, limit: str | None, show_secrets: bool, **options: Any) -> None:
    """NAME may be a pattern that matches one host. `--limit` has no effect."""
    inventory = inventory_of(options)
    hosts = match_hosts(inventory, name)
    if len(hosts) != 1:
        raise Usage(f"`{printable(name)}` matches {len(hosts)} hosts", "name one of them")
    listing = AnsibleOutput(
        inventory, OutputFormat.YAML if as_yaml else OutputFormat.HOST, export=export, show_secrets=show_secrets
    )
    _print(listing.host(hosts[0]), as_yaml=as_yaml)


@click.command("graph")
@click.argument("group", default="all", shell_complete=values.groups)
@click.option("--vars", "variables", is_flag=True, help="Show the variables, too.")
@_limit
@show_secrets_option
@source_options
def graph_command(group: str, variables: bool, limit: str | None, show_secrets: bool, **options: Any) -> None:
    """GROUP is the root of the tree. `--limit` has no effect."""
    inventory = inventory_of(options)
    if group not in inventory.groups:
        raise Usage(f"no group `{printable(group)}`", f"its groups are {', '.join(inventory.groups)}")
    for line in AnsibleOutput(inventory, OutputFormat.TEXT, show_secrets=show_secrets).graph(
        group, variables=variables
    ):
        click.echo(line)


def _print(data: dict[str, Any], *, as_yaml: bool) -> None:
    if not as_yaml:
        text = dumps(data)
        write_document(f"{json_screened(text) if sys.stdout.isatty() else text}\n", sys.stdout)
        return
    import yaml  # noqa: PLC0415  only --yaml needs it

    base: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # as Ansible does

    class Dumper(base):  # type: ignore[misc, valid-type]
        """Writes encrypted values as Ansible does."""

    Dumper.add_representer(
        VaultValue, lambda dumper, value: dumper.represent_scalar("!vault", value.ciphertext, style="|")
    )
    write_document(yaml.dump(data, Dumper=Dumper, default_flow_style=False, allow_unicode=True), sys.stdout)


@click.command("schema")
@click.option("--playbook", is_flag=True, help="The schema of playbooks instead.")
@click.option("--vars", "variables", is_flag=True, help="The schema of files in group_vars/ and host_vars/ instead.")
def schema_command(*, playbook: bool, variables: bool) -> None:
    """Write it to FILE, and `# yaml-language-server: $schema=FILE` into the first line of an inventory for your editor."""
    from tfprov.settings.schema.inventory_schema import (  # noqa: PLC0415  no other command needs them
        inventory_schema,
        playbook_schema,
        variables_schema,
    )

    if playbook and variables:
        raise click.UsageError("`--playbook` and `--vars` are two schemas; name one of them")
    schema = playbook_schema() if playbook else variables_schema() if variables else inventory_schema()
    click.echo(json.dumps(schema, indent=2, ensure_ascii=False))
