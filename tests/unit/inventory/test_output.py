"""The output of `ansible-inventory` as data: what is masked, and which values hosts share."""

from typing import Any

from tests.support.inventories import inventory
from tfprov.inventory.ansible_output import AnsibleOutput, OutputFormat, VaultValue

INVENTORY = """\
all:
  vars:
    sealed: !vault "$ANSIBLE_VAULT;1.1;AES256\\n3130"
    tfprov: {flags: {api_key: on-command-lines}, env: {API_KEY: secret}}
    a_token: "{{ vaulted }}"
    b_token: "{{ 'secret' }}"
    c_token: '{{ "secret" }}'
    d_token: "x{{ vaulted }}"
    e_token: null
worker: {hosts: {h1: , h2: {own: !vault "$ANSIBLE_VAULT;1.1;AES256\\n3131"}}}
"""
HIDDEN = "******"


def variables(form: OutputFormat) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the variables of both hosts in a format."""
    output = AnsibleOutput(inventory(INVENTORY), form, show_secrets=False)
    return output.host("h1"), output.host("h2")


def test_what_has_the_name_of_a_secret_is_masked_unless_it_refers_to_another_variable() -> None:
    ciphertext = "$ANSIBLE_VAULT;1.1;AES256\n3130"
    for form, sealed in (
        (OutputFormat.LIST, {"__ansible_vault": ciphertext}),
        (OutputFormat.HOST, {"__ansible_vault": ciphertext}),
        (OutputFormat.YAML, VaultValue(ciphertext)),
        (OutputFormat.TEXT, HIDDEN),
    ):
        assert variables(form)[0] == {
            "sealed": sealed,
            "tfprov": {"flags": {"api_key": "on-command-lines"}, "env": {"API_KEY": HIDDEN}},
            "a_token": "{{ vaulted }}", "b_token": HIDDEN, "c_token": HIDDEN, "d_token": HIDDEN, "e_token": None,
        }  # fmt: skip


def test_a_host_of_several_groups_has_its_variables_where_it_is_listed_first() -> None:
    text = "a: {hosts: {h1: {x: 1}}}\nb: {hosts: {h1: , h2: {x: 2}}}\n"
    listed = AnsibleOutput(inventory(text), OutputFormat.YAML, show_secrets=False).as_yaml(["h1", "h2"])
    assert listed["all"]["children"] == {"a": {"hosts": {"h1": {"x": 1}}}, "b": {"hosts": {"h1": {}, "h2": {"x": 2}}}}


def test_hosts_share_an_encrypted_value_of_their_group_which_yaml_shows_by_aliases() -> None:
    first, second = variables(OutputFormat.YAML)
    assert first["sealed"] is second["sealed"]
    assert second["own"] == VaultValue("$ANSIBLE_VAULT;1.1;AES256\n3131")
