"""Values and files that ansible-vault encrypted: decrypted when they are used, and shown nowhere."""

import hashlib
import hmac
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.examples import MATRIX
from tests.support.memory_cluster import make_context, run_up
from tests.support.vaults import encrypt, value
from tfprov.engine.public_settings import public_roles
from tfprov.errors import HostError, InvalidInput, Position, Problem, hide_secret
from tfprov.inventory.yaml_source import read_groups
from tfprov.model.inventory import Inventory
from tfprov.model.plan import ActionKind
from tfprov.model.yaml_node import Mapping, Node, Scalar, decrypt_values, plain, plain_masked
from tfprov.settings.connection import resolve_connection
from tfprov.settings.resolve import resolve
from tfprov.vault.decrypt import MalformedVault, Vault, WrongPassword, decrypt, is_decryption_problem, vault_id
from tfprov.vault.passwords import Passwords, PasswordSource
from tfprov.vault.redaction import (
    KeyedHash,
    hashed_with_other_key,
    is_masked,
    mark_secrets,
    mask_value,
    mentions_secret,
    redact_line,
    reveal_value,
    show_public_env,
)
from tfprov.yamltext.load import load_file, parse

PASSWORD = "open sesame"
SECRET = "correct-horse-battery"
HEAD = "v.yml:1:1: error: "


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Vault:
    file = tmp_path_factory.mktemp("vault") / "password"
    file.write_text(f"{PASSWORD}\n")
    return Vault(Passwords(files=[str(file)]))


def vault_with(*files: Path | str, ids: Sequence[str] = (), **others: Any) -> Vault:
    return Vault(Passwords(files=[str(file) for file in files], ids=ids, **others))


def decryption_error(vault: Vault, text: str) -> str:
    """Return the error of a text that cannot be decrypted."""
    try:
        vault.decrypt(text, Position("v.yml", 1, 1))
    except InvalidInput as error:
        return str(error)
    raise AssertionError("the text was decrypted")


# -- reading ----------------------------------------------------------------------------------------------------------


def test_a_value_is_decrypted_when_it_is_used(vault: Vault) -> None:
    [text] = encrypt(SECRET)
    node = parse(f"token: {value(text, 2)}", "vars.yml", vault=vault)
    assert plain_masked(node) == {"token": {"__ansible_vault": text}}
    assert SECRET not in repr(node)
    assert plain(decrypt_values(node)) == {"token": SECRET}


def test_a_decrypted_value_is_text_and_no_template(vault: Vault) -> None:
    texts = encrypt("{{ other }}", "5", "true", "")
    assert [vault.decrypt(text, Position("v")) for text in texts] == ["{{ other }}", "5", "true", ""]
    inventory = cluster(
        f"env: {{}}\n    api: {value(texts[0], 6)}    other: {{x: 1}}\n    tfprov2: '{{{{ api }}}}'", vault
    )
    assert plain(decrypt_values(inventory.variables("h1")))["api"] == "{{ other }}"


def test_an_encrypted_file_keeps_its_line_numbers(vault: Vault, tmp_path: Path) -> None:
    [text] = encrypt("token: correct-horse-battery\ncount: 5\nall: {vars: {x: [1, {{}: 2}]}}\n")
    (tmp_path / "broken.yml").write_text(text)
    with pytest.raises(InvalidInput) as caught:
        load_file(tmp_path / "broken.yml", vault=vault)
    what = "error: not valid once it is decrypted; see `ansible-vault edit`; lines count as they do there"
    assert str(caught.value) == f"{tmp_path}/broken.yml:3:21: {what}"
    [text] = encrypt("token: correct-horse-battery\ncount: 5\n")
    (tmp_path / "vars.yml").write_text(text)
    node = load_file(tmp_path / "vars.yml", vault=vault)
    assert plain(node) == {"token": SECRET, "count": 5}
    assert plain_masked(node) == {"token": "******", "count": "******"}
    assert isinstance(node, Mapping)
    assert node.key_at("count") == Position(str(tmp_path / "vars.yml"), 2, 1)


def test_the_password_is_read_once_for_many_values(tmp_path: Path) -> None:
    reads = tmp_path / "reads"
    path = write_script(
        tmp_path / "password", f"print('{PASSWORD}', file=open({str(reads)!r}, 'a')); print('{PASSWORD}')"
    )
    texts = encrypt(*(f"secret {number}" for number in range(10)))
    vault = vault_with(path)
    for _ in range(25):
        assert [vault.decrypt(text, Position("v")) for text in texts] == [f"secret {number}" for number in range(10)]
    assert reads.read_text().splitlines() == [PASSWORD]


def test_text_that_ansible_encrypts_is_decrypted_to_the_same_bytes() -> None:
    sizes = (0, 1, 15, 16, 17, 31, 32, 1000)
    texts = ["".join(chr((size + n * 7) % 256) for n in range(size)) for size in sizes]
    for text, label, password in zip(
        texts, ["", "prod", "a b"] * 3, ["x", "p\u00e4ss w\u00f6rt", "y" * 100] * 3, strict=False
    ):
        (ciphertext,) = encrypt(text, password=password, label=label)
        others = [("default", b"wrong"), (label or "default", password.encode())]
        for variant in (ciphertext, ciphertext.replace("\n", "\r\n"), ciphertext.strip() + "\n\n"):
            assert decrypt(variant, others) == text.encode("latin-1")
        for position in range(len(ciphertext.split("\n", maxsplit=1)[0]) + 1, len(ciphertext), 97 if MATRIX else 291):
            changed = (
                f"{ciphertext[:position]}{'0' if ciphertext[position] != '0' else '1'}{ciphertext[position + 1 :]}"
            )
            with pytest.raises((MalformedVault, WrongPassword)):
                decrypt(changed, others)


def test_an_unused_value_is_not_decrypted() -> None:
    [text] = encrypt(SECRET)
    inventory = cluster(f"env: {{A: b}}\n    unused: {value(text, 6)}", Vault())
    assert [role.values.env for role in resolve(inventory)] == [{"A": "b"}] * 2


# -- passwords --------------------------------------------------------------------------------------------------------


def write_script(path: Path, text: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(0o700)
    return path


def test_a_password_script_may_print_a_line_break(tmp_path: Path) -> None:
    [text] = encrypt(SECRET)
    alone = f"import sys; print({PASSWORD!r} if len(sys.argv) == 1 else 'only a client gets arguments')"
    vault = vault_with(write_script(tmp_path / "ask", alone))
    assert vault.decrypt(text, Position("v")) == SECRET


def test_a_client_script_gets_the_vault_id(tmp_path: Path) -> None:
    [text] = encrypt(SECRET, label="prod", password="of prod")
    client = write_script(
        tmp_path / "keys-client.py", "import sys; print('of', sys.argv[sys.argv.index('--vault-id') + 1])"
    )
    vault = vault_with(ids=[f"prod@{client}"])
    assert vault.decrypt(text, Position("v")) == SECRET


def test_the_password_with_the_vault_id_of_the_value_is_tried_first(tmp_path: Path) -> None:
    for name in ("dev", "prod"):
        (tmp_path / name).write_text(f"of {name}")
    vault = vault_with(ids=[f"dev@{tmp_path}/dev", f"prod@{tmp_path}/prod"])
    for label, password in (("dev", "of dev"), ("prod", "of prod"), ("", "of prod"), ("dev", "of prod")):
        [text] = encrypt(SECRET, label=label, password=password)
        assert vault.decrypt(text, Position("v")) == SECRET
        assert vault_id(text) == label


def test_the_prompt_comes_once_and_only_when_a_value_is_decrypted() -> None:
    questions: list[str] = []

    def ask(question: str) -> str:
        questions.append(question)
        return f"{PASSWORD}\n"

    vault = Vault(Passwords(prompt=True, ids=["extra@prompt"], ask=ask))
    assert questions == []
    for text in encrypt("one", "two"):
        vault.decrypt(text, Position("v"))
    assert questions == ["Vault password (extra)", "Vault password"]


@pytest.mark.parametrize(
    "variables",
    [{"ANSIBLE_VAULT_PASSWORD_FILE": "FILE"}, {"ANSIBLE_VAULT_IDENTITY_LIST": "a@FILE, b@FILE"}],
    ids=["password file", "identity list"],
)
def test_the_environment_variables_of_ansible_name_password_files(tmp_path: Path, variables: dict[str, str]) -> None:
    (tmp_path / "password").write_text(PASSWORD)
    environ = {name: message.replace("FILE", str(tmp_path / "password")) for name, message in variables.items()}
    vault = vault_with(environ=environ)
    assert vault.decrypt(encrypt(SECRET)[0], Position("v")) == SECRET


def test_a_password_file_may_be_encrypted_with_an_earlier_password(tmp_path: Path) -> None:
    (tmp_path / "first").write_text(PASSWORD)
    (tmp_path / "second").write_text(encrypt("another one\n")[0])
    [text] = encrypt(SECRET, password="another one")
    vault = vault_with(tmp_path / "first", tmp_path / "second")
    assert vault.decrypt(text, Position("v")) == SECRET
    (tmp_path / "first").unlink()
    closed = f"`{tmp_path}/second` is encrypted itself, and no password before it opens it"
    message = f"--vault-password-file: error: {closed}; name the password of that file before it"
    assert decryption_error(vault_with(tmp_path / "second"), text) == message
    (tmp_path / "second").write_bytes(b"$ANSIBLE_VAULT;1.1;AES256\n\xff")
    assert decryption_error(vault_with(tmp_path / "second"), text) == message


def test_a_password_may_be_read_from_a_pipe() -> None:
    reader, writer = os.pipe()
    os.write(writer, PASSWORD.encode())
    os.close(writer)
    vault = vault_with(f"/dev/fd/{reader}")
    assert vault.decrypt(encrypt(SECRET)[0], Position("v")) == SECRET
    os.close(reader)


# -- what can be wrong ------------------------------------------------------------------------------------------------


def test_a_missing_password_is_one_error_for_all_values() -> None:
    one, two = encrypt("one", "two")
    text = f"A: {value(one, 12)}        B: {value(two, 12)}"
    inventory = cluster(f"env:\n        {text}", Vault())
    with pytest.raises(InvalidInput) as caught:
        resolve(inventory)
    message = (
        "encrypted with ansible-vault, and no password is available; "
        "name one with --vault-password-file or --ask-vault-pass"
    )
    assert str(caught.value) == f"inventory.yml:7:12: error: {message}"


EXECUTABLE_FIX = "remove its executable bit if it holds the password itself"
PASSWORD_ERRORS = {
    "missing": ("nowhere", "`nowhere` does not exist; correct the path"),
    "of nobody": ("~nobody-here/pw", "`~nobody-here/pw` does not exist; correct the path"),
    "a directory": (".", "`.` cannot be read: is a directory; give a readable file"),
    "without a name": ("", "an empty name; give the file with the password"),
    "with a null byte": ("a\0b", "`a\\x00b` cannot be read: embedded null byte; give a readable file"),
    "empty": ("empty", "`empty` has no password in it; write the password into it"),
    "no program": (
        "data",
        f"`data` is executable, but cannot be run: exec format error; {EXECUTABLE_FIX}",
    ),
    "a program that fails": ("fails", "`fails` ended with exit code 3; run it by itself to see why"),
    "a program that is silent": ("silent", "`silent` has no password in it; write the password into it"),
}  # fmt: skip


@pytest.mark.parametrize("name", PASSWORD_ERRORS)
def test_a_password_that_cannot_be_read_is_reported_with_its_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "data").write_text("just a password")
    (tmp_path / "data").chmod(0o777)
    write_script(tmp_path / "fails", "raise SystemExit(3)")
    write_script(tmp_path / "silent", "")
    monkeypatch.chdir(tmp_path)
    file, expected = PASSWORD_ERRORS[name]
    message = decryption_error(vault_with(file), encrypt(SECRET)[0])
    assert message == f"--vault-password-file: error: {expected}"


@pytest.mark.parametrize("name", ["missing", "of nobody", "a directory", "without a name"])
def test_a_password_file_of_the_command_line_must_be_there_even_if_nothing_is_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file, expected = PASSWORD_ERRORS[name]
    with pytest.raises(InvalidInput) as caught:
        Passwords(files=(file,)).check()
    assert str(caught.value) == f"--vault-password-file: error: {expected}"
    with pytest.raises(InvalidInput, match=r"^--vault-id: error: "):
        Passwords(ids=(f"prod@{file}",)).check()


def test_passwords_are_neither_read_nor_run_before_they_are_needed(tmp_path: Path) -> None:
    write_script(tmp_path / "fails", "raise SystemExit(3)")
    environ = {"ANSIBLE_VAULT_PASSWORD_FILE": "nowhere"}  # set once, for all inventories
    Passwords(("prod@prompt",), (str(tmp_path / "fails"),), prompt=True, environ=environ, configured="nowhere").check()


def test_a_prompt_needs_a_terminal() -> None:
    message = "--ask-vault-pass: error: there is no terminal to ask in; use --vault-password-file"
    assert decryption_error(vault_with(prompt=True), encrypt(SECRET)[0]) == message


def test_a_prompt_that_is_left_empty_is_no_password() -> None:
    vault = Vault(Passwords(prompt=True, ask=lambda _: " \n"))
    message = "--ask-vault-pass: error: no password was entered; type it when asked"
    assert decryption_error(vault, encrypt(SECRET)[0]) == message


def test_a_wrong_password_is_reported_with_the_vault_id(vault: Vault) -> None:
    message = "none of the passwords decrypts this value{}; check the password, and that the value is whole"
    assert decryption_error(vault, encrypt(SECRET, password="other")[0]) == HEAD + message.format("")
    labelled = encrypt(SECRET, password="other", label="prod")[0]
    assert decryption_error(vault, labelled) == HEAD + message.format(", whose vault id is `prod`")


def test_passwords_that_were_read_open_the_values_of_another_process(vault: Vault) -> None:
    [text] = encrypt(SECRET)
    vault.decrypt(text, Position("v"))
    assert vault.secrets == (("default", PASSWORD.encode()),)
    assert Vault.with_secrets(vault.secrets, Passwords(files=["nowhere"])).decrypt(text, Position("v")) == SECRET


def test_a_malformed_text_is_not_reported_as_a_wrong_password(vault: Vault) -> None:
    [text] = encrypt(SECRET)
    lines = text.splitlines()
    message = f"{HEAD}not valid ansible-vault text: truncated or modified; copy it again, or encrypt it anew"
    broken = [
        "\n".join(lines[:3]),
        text.replace("AES256", "AES999"),
        lines[0],
        text.replace("3", "x"),
        lines[0] + "\n00",
        "\n".join(["$ANSIBLE_VAULT;1.1", *lines[1:]]),
    ]
    assert [decryption_error(vault, one) for one in broken] == [message] * len(broken)
    assert vault.decrypt(text, Position("v")) == SECRET


def test_a_plaintext_that_is_not_utf8_is_refused(vault: Vault) -> None:
    message = "not UTF-8 text once it is decrypted; encrypt text, and put other files into `mounts`"
    assert decryption_error(vault, encrypt("\xff\xfe")[0]) == HEAD + message


def test_a_password_has_65536_bytes_at_most(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("x" * 65_537)
    source = PasswordSource("--vault-password-file", "default", str(tmp_path / "long"))
    assert Passwords().read(source) == b"x" * 65_536


def test_both_tags_of_ansible_mark_an_encrypted_value(vault: Vault) -> None:
    [text] = encrypt(SECRET)
    for tag in ("!vault", "!vault-encrypted"):
        node = parse(f"token: {value(text, 2).replace('!vault', tag)}", "vars.yml", vault=vault)
        assert plain(decrypt_values(node)) == {"token": SECRET}
    unencrypted = Vault()
    parse("a: !vault text\n", "v.yml", vault=unencrypted)
    what = "marked as encrypted, and does not begin with `$ANSIBLE_VAULT;`"
    fix = "put there what `ansible-vault encrypt_string` prints, or remove `!vault`"
    assert [str(warning) for warning in unencrypted.warnings] == [f"v.yml:1:4: error: {what}; {fix}"]
    assert decryption_error(unencrypted, "text") == f"{HEAD}{what}; {fix}"


ENCRYPT_FIX = "put there what `ansible-vault encrypt_string` prints"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: !vault 5\n", f"v.yml:1:4: error: `!vault` in front of a value that is not text; {ENCRYPT_FIX}"),
        ("a: !vault ''\n", f"v.yml:1:4: error: `!vault` in front of a value that is not text; {ENCRYPT_FIX}"),
        ("a: !env 1X\n", "v.yml:1:4: error: `!env 1X` names no environment variable; write `!env NAME`"),
        ("!env X: 1\n", "v.yml:1:1: error: a name from the environment; take values from there only"),
        ("? !vault $ANSIBLE_VAULT;1.1\n: 1\n", "v.yml:1:3: error: an encrypted name; encrypt values only"),
        ("a: {? !vault x : 1}\n", "v.yml:1:7: error: an encrypted name; encrypt values only"),
        ("a: {!env X : 1}\n", "v.yml:1:5: error: a name from the environment; take values from there only"),
        ("a: !vault [1]\n", "v.yml:1:4: error: the tag `!vault` is not allowed here; write a plain value"),
    ],
    ids=[
        "a number", "empty", "no variable", "a name from the environment", "a key", "a key in braces",
        "one from the environment there", "a list",
    ],
)  # fmt: skip
def test_the_vault_tag_is_for_encrypted_text_only(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(text, "v.yml")
    assert str(caught.value) == message


# -- it stays a secret ------------------------------------------------------------------------------------------------

CLUSTER = """\
all:
  vars:
    tfprov:
      cluster: sealed
      command: [python, x.py]
      SETTINGS
  children:
    ps: {hosts: {h1: }}
    worker: {hosts: {h2: }}
"""


def cluster(settings: str, vault: Vault) -> Inventory:
    text = CLUSTER.replace("SETTINGS", settings)
    return read_groups(parse(text, "inventory.yml", vault=vault), "inventory.yml")


def problems(settings: str, vault: Vault) -> list[str]:
    try:
        resolve(cluster(settings, vault))
    except InvalidInput as error:
        return [str(problem).partition("error: ")[2] for problem in error.problems]
    return []


ENV = ["DIRECT", "WHOLE", "PART", "FILTERED", "TWICE", "LATE"]


def with_env(text: str) -> str:
    return f"""\
env:
        DIRECT: {value(text, 10)}        WHOLE: "{{{{ api }}}}"
        PART: "x{{{{ api }}}}y"
        FILTERED: "{{{{ api | upper }}}}"
        TWICE: "{{{{ again }}}}"
        LATE: "{{{{ task.index }}}}{{{{ api }}}}"
        KNOWN: "1"
    again: "{{{{ api }}}}"
    api: {value(text, 6)}"""


def test_a_secret_reaches_the_environment_and_no_spec(vault: Vault) -> None:
    [text] = encrypt(SECRET)
    context = make_context(parse(CLUSTER.replace("SETTINGS", with_env(text)), "inventory.yml", vault=vault))
    container = context.wanted[1]
    assert container.env["DIRECT"] == container.env["WHOLE"] == container.env["TWICE"] == SECRET
    assert (container.env["PART"], container.env["LATE"]) == (f"x{SECRET}y", f"0{SECRET}")
    spec = container.spec["env"]
    assert spec["KNOWN"] == "1"
    assert all(re.fullmatch("hmac-sha256:[0-9a-f]{16}:[0-9a-f]{64}", spec[name]) for name in ENV)
    assert len({spec["DIRECT"], spec["WHOLE"]}) == 2, "equal values of two variables do not look equal"
    made, _ = run_up(context)
    assert SECRET not in json.dumps([made.to_dict(), *(dict(one.spec) for one in context.wanted)])


def test_a_changed_secret_changes_the_spec_and_the_plan_names_only_its_variable(vault: Vault) -> None:
    one, other = encrypt(SECRET, "another-secret")
    runtimes: dict[str, Any] = {}
    for text, causes in ((one, {"not there"}), (one, set()), (other, {f"env.{name}" for name in ENV})):
        document = parse(CLUSTER.replace("SETTINGS", with_env(text)), "inventory.yml", vault=vault)
        made, _ = run_up(make_context(document, runtimes=runtimes))
        assert {
            cause for action in made.actions if action.kind == ActionKind.START for cause in action.causes
        } == causes
        assert SECRET not in repr(made)
        assert "another-secret" not in repr(made)


SHOWN_IN_PLANS = (
    "is secret, and tfprov shows it in plans and labels; write it in plain; only `env` and passwords stay secret"
)
ON_COMMAND_LINES = (
    "is secret, and others on the host can read command lines; put it into `env`, or into a file on the host that"
)
NOT_SINGLE = "`env.A` renders to a list or a mapping; render it to a single value"
TEMPLATE_FAILS = "a template that uses a secret fails; correct the expression; the reason could repeat the secret"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("flags: {token: '{{ api }}'}", [f"`flags.token` {ON_COMMAND_LINES} `mounts` brings"]),
        ("flags: {token: 'a{{ again }}'}", [f"`flags.token` {ON_COMMAND_LINES} `mounts` brings"]),
        ("flags: {token: '{{ task.index }}{{ api }}'}", []),
        ("flags: {fine: '{{ other }}'}", []),
        ("code: '{{ api }}'", [f"`code` {SHOWN_IN_PLANS}"]),
        ("image: {name: '{{ api }}'}", [f"`image` {SHOWN_IN_PLANS}"]),
        ("memory: '{{ api }}'", [f"`memory` {SHOWN_IN_PLANS}"]),
        ("notify: [{command: ['{{ api }}']}]", [f"`notify` {SHOWN_IN_PLANS}"]),
        ("notify: [{url: '{{ api }}'}, {url: '{{ api }}'}]",
         [f"`notify[{number}].url` is secret, and not one line of text; encrypt one line of text" for number in (0, 1)]),
        ("notify: [{url: 'https://hooks/{{ api }}'}]", []),
        ("env: {A: '{{ api.nothing }}'}", [TEMPLATE_FAILS]),
        ("env: {A: \"{{ {'x': 1}[api] }}\"}", [TEMPLATE_FAILS]),
        ("env: {A: '{{ api / 2 }}'}", [TEMPLATE_FAILS]),
        ("env: {A: '{{ api ~ nobody }}'}", [TEMPLATE_FAILS]),
        ("env: {A: '{{ api.splitlines() | list }}'}", [NOT_SINGLE]),
        ("env: {A: '{{ lines }}'}", ["`env.A` renders to several lines; render it to one line"]),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
def test_a_secret_outside_of_env_is_refused_and_never_repeated(vault: Vault, settings: str, message: list[str]) -> None:
    api, lines = encrypt(SECRET, f"{SECRET}\n{SECRET}\n")
    more = f"\n    again: '{{{{ api }}}}'\n    other: fine\n    api: {value(api, 6)}    lines: {value(lines, 6)}"
    errors = problems(settings + more, vault)
    assert errors == message
    assert SECRET not in "".join(errors)


def test_an_encrypted_webhook_reaches_the_notifier_and_no_record(vault: Vault) -> None:
    [url] = encrypt(f"https://hooks.example.com/{SECRET}")
    text = CLUSTER.replace("SETTINGS", f"notify:\n        - url: {value(url, 12)}")
    roles = resolve(read_groups(parse(text, "inventory.yml", vault=vault), "inventory.yml"))
    assert {one.url for role in roles for one in role.values.notify} == {f"https://hooks.example.com/{SECRET}"}
    assert SECRET not in json.dumps(public_roles(roles))


def test_a_secret_in_a_flag_of_a_task_is_refused(vault: Vault) -> None:
    [api] = encrypt(SECRET)
    text = CLUSTER.replace(
        "SETTINGS", f"flags: {{token: '{{{{ task.index }}}}{{{{ api }}}}'}}\n    api: {value(api, 6)}"
    )
    with pytest.raises(InvalidInput, match=r"`flags\.token` is secret"):
        make_context(parse(text, "inventory.yml", vault=vault))


@pytest.mark.parametrize("name", ["flags", "command"])
def test_an_encrypted_word_of_the_command_line_is_refused(vault: Vault, name: str) -> None:
    [api] = encrypt(SECRET)
    settings = f"flags: {{}}\n      {name}:\n        " + (
        f"token: {value(api, 10)}" if name == "flags" else f"- python\n        - {value(api, 10)}"
    )
    text = CLUSTER.replace("SETTINGS", settings).replace("      flags: {}\n      flags:", "      flags:")
    text = text.replace("      command: [python, x.py]\n", "") if name == "command" else text
    with pytest.raises(InvalidInput, match=re.escape(ON_COMMAND_LINES)) as caught:
        resolve(read_groups(parse(text, "inventory.yml", vault=vault), "inventory.yml"))
    assert SECRET not in str(caught.value)


def test_a_secret_of_several_lines_is_refused_without_repeating_it(vault: Vault) -> None:
    [text] = encrypt(f"{SECRET}\nsecond")
    assert problems(f"env:\n        A: {value(text, 10)}", vault) == [
        "`env.A` is secret, and not one line of text; encrypt one line of text"
    ]


def test_connection_variables_may_be_encrypted(vault: Vault) -> None:
    password, user, host, port = encrypt(SECRET, "train-user", "10.77.0.9", "so-secret-a-port")
    variables = f"    ansible_password: {value(password, 6)}    ansible_user: {value(user, 6)}"
    variables += f"    ansible_host: {value(host, 6)}"
    inventory = cluster(f"address: 10.0.0.1\n      image: {{name: x}}\n{variables}", vault)
    way = resolve_connection(inventory, "h2")
    assert (way.password, way.user, way.address) == (SECRET, "train-user", "10.77.0.9")
    assert SECRET not in repr(way)
    assert str(HostError("h2", "10.77.0.9 does not answer to train-user")) == "h2: ****** does not answer to ******"
    message = "`ansible_host` is secret, but all tasks have it on their command lines; set `address` under `tfprov:`"
    assert f"{message}, or write it in plain" in problems(f"image: {{name: x}}\n{variables}", vault)
    assert problems(f"env: {{}}\n    ansible_port: {value(port, 6)}", vault) == [
        "`ansible_port` is secret, and invalid; for example `ansible_port: 22`"
    ]


def test_an_invalid_connection_variable_is_not_repeated_if_it_is_encrypted(vault: Vault) -> None:
    user, args, key = encrypt("hunter2", "-p hunter2", "hunter2")  # too short to be masked in messages
    variables = f"    ansible_become: true\n    ansible_become_user: {value(user, 6)}"
    variables += f"    ansible_ssh_common_args: {value(args, 6)}    ansible_private_key_file: {value(key, 6)}"
    assert problems(f"image: {{name: x}}\n{variables}", vault) == [
        "`ansible_become_user` is secret, and invalid; use `root`, or remove it",
        "`ansible_ssh_common_args` is secret, and invalid; give one from 1 to 65535",
        "`ansible_private_key_file` is secret, and invalid; correct the path",
    ]


def test_error_messages_of_libraries_do_not_repeat_secrets() -> None:
    hide_secret("some-long-secret")
    hide_secret("true")
    assert str(HostError("h", "login as some-long-secret: not true")) == "h: login as ******: not true"
    mark_secrets(parse("a: of-an-encrypted-file\nb: '{{ a }} and more'", "v.yml"))
    assert str(HostError("h", "of-an-encrypted-file: {{ a }} and more")) == "h: ******: {{ a }} and more"


def test_password_sources_are_tried_in_the_order_of_ansible() -> None:
    environ = {"ANSIBLE_VAULT_IDENTITY_LIST": "one@first, ,second", "ANSIBLE_VAULT_PASSWORD_FILE": "fifth"}
    passwords = Passwords(("lab@third", "@unnamed"), ("fourth",), prompt=True, environ=environ)
    assert list(passwords.sources()) == [
        PasswordSource("ANSIBLE_VAULT_IDENTITY_LIST", "one", "first"),
        PasswordSource("ANSIBLE_VAULT_IDENTITY_LIST", "default", "second"),
        PasswordSource("--vault-id", "lab", "third"),
        PasswordSource("--vault-id", "default", "unnamed"),
        PasswordSource("--vault-password-file", "default", "fourth"),
        PasswordSource("ANSIBLE_VAULT_PASSWORD_FILE", "default", "fifth"),
        PasswordSource("--ask-vault-pass", "default", "prompt_ask_vault_pass"),
    ]


def test_decryption_problems_are_recognized(vault: Vault) -> None:
    [text] = encrypt(SECRET, password="other")
    for closed in (text, text.splitlines()[0]):
        with pytest.raises(InvalidInput) as raised:
            vault.decrypt(closed, Position("v.yml", 1, 1))
        assert all(map(is_decryption_problem, raised.value.problems))
    assert is_decryption_problem(Problem(Position("--vault-id"), "`x` does not exist", "correct the path"))
    assert not is_decryption_problem(Problem(Position("v.yml", 1, 1), "`x` does not exist", "correct the path"))


FILE_OF_SECRETS = """
own: own-5f3a9
ansible_host: 10.0.0.1
ansible_password: pass-5f3a9
tfprov:
  cluster: lab1
  flags: {lr: rate-5f3a9}
  env: {PLAIN: env-5f3a9}
  notify: [{url: "http://hook-5f3a9"}]
hosts: {h1: {deep: [deep-5f3a9]}}
"""


def test_in_an_encrypted_file_env_notify_and_own_variables_are_secret_and_other_settings_are_not() -> None:
    marked = mark_secrets(parse(FILE_OF_SECRETS.encode(), "secrets.yml"))

    def secrets(node: Node) -> Iterator[object]:
        if isinstance(node, Scalar):
            yield from [node.data] if node.secret else []
        else:
            for below in node.entries.values() if isinstance(node, Mapping) else node.items:
                yield from secrets(below)

    assert list(secrets(marked)) == ["own-5f3a9", "pass-5f3a9", "env-5f3a9", "http://hook-5f3a9", "deep-5f3a9"]


SECRET_NAMES = [
    "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "dbPassword", "KEY", "apikey", "ansible_become_pass", "my.key", "token2",
    "X-Api-Key", "GPG_passphrase", "hf_passwd",
    "DB_PASS", "MY_SECRET", "PASSWORD_OF_ALL",
]  # fmt: skip
"""Names of variables whose values are masked in every output."""
PUBLIC_NAMES = [
    "", "MONKEY", "MAX_TOKENS", "SSL_KEY_FILE", "tokenPath", "passDir", "ansible_user", "ansible_key", "PASSENGER",
    "ansible_ssh_private_key_file", "keyboard",
]  # fmt: skip
MENTIONING = ["ansible_become_pass", "MAX_TOKENS", "PASSENGER", "my_secrets", "x-api-key", "accessKeyId", "Access_Key"]
"""Names of variables that may well be passwords, and whose values no message repeats."""


def test_the_names_of_secrets() -> None:
    assert [name for name in (*SECRET_NAMES, *PUBLIC_NAMES) if is_masked(name)] == SECRET_NAMES
    assert [
        name for name in (*MENTIONING, "key", "ssl_key", "apis_key", "access", "user") if mentions_secret(name)
    ] == MENTIONING
    lines = ["a: 1", "password: x", "password", "- {x-api-key: y, a: b}", "my_token_b: z"]
    assert [*map(redact_line, lines)] == ["a: 1", "password…", "password", "- {x-api-key…", "my_token_b…"]


WITH_SECRETS = """\
plain: 1
secret_of_none:
ansible_password: x
ansible_ssh_pass: "{{ pw }}"
ansible_become_pass: "{{ pw }}x"
ansible_ssh_password: "{{ 'literal' }}"
login_token: "x{{ pw }}"
pin_token: 1234
unsafe_token: !unsafe "{{ pw }}"
db: {password: p, user: u, list: [{secret: s, n: 1, token: }], raw: !env TFPROV_NO_SUCH}
from_env: !env TFPROV_NO_SUCH
tfprov: {flags: {token: t}, env: {API_KEY: k, LEVEL: v, PUB_TOKEN: p, E: !env TFPROV_NO_SUCH}}
"""


def test_which_values_are_masked_in_an_output() -> None:
    nodes = parse(WITH_SECRETS, "v.yml")
    assert isinstance(nodes, Mapping)
    db = {"password": "******", "user": "u", "list": [{"secret": "******", "n": 1, "token": None}], "raw": "******"}
    env = {"API_KEY": "******", "LEVEL": "v", "PUB_TOKEN": "******", "E": "******"}
    assert {name: mask_value((name,), node) for name, node in nodes.entries.items()} == {
        "plain": 1,
        "secret_of_none": None,
        "ansible_password": "******",
        "ansible_ssh_pass": "{{ pw }}",
        "ansible_become_pass": "******",
        "ansible_ssh_password": "******",
        "login_token": "******",
        "pin_token": "******",
        "unsafe_token": "******",
        "db": db,
        "from_env": "******",
        "tfprov": {"flags": {"token": "******"}, "env": env},
    }
    settings = nodes.entries["tfprov"]
    assert isinstance(settings, Mapping)
    flags, variables = settings.entries["flags"], settings.entries["env"]
    assert isinstance(flags, Mapping)
    assert isinstance(variables, Mapping)
    assert mask_value(("tfprov", "flags", "token"), flags.entries["token"]) == "t", "command lines are visible anyway"
    assert mask_value(("other", "flags", "token"), flags.entries["token"]) == "******"
    numbers = parse("{n: 1, m: {k: }}", "v.yml")
    assert mask_value(("x", "MY_TOKENS", "MY_TOKEN"), numbers) == {"n": "******", "m": {"k": None}}
    assert mask_value(("MY_TOKEN", "x"), numbers) == {"n": 1, "m": {"k": None}}
    assert mask_value(("MY_TOKEN", "x"), settings.entries["flags"]) == {"token": "******"}
    assert mask_value(("MY_TOKEN", "LEVEL"), variables.entries["LEVEL"]) == "v"
    public = frozenset(["PUB_TOKEN", "E"])
    shown = {
        name: show_public_env(public, mask_value, ("tfprov", "env", name), node)
        for name, node in variables.entries.items()
    }
    assert shown == env | {"PUB_TOKEN": "p"}
    assert reveal_value(("db",), nodes.entries["db"]) == db, "as long as one of its secrets cannot be read"
    assert reveal_value(("x",), flags) == {"token": "t"}


def test_a_hash_of_a_secret_is_the_same_in_every_release() -> None:
    """Hosts have it in their labels: with another one, every task would be started again."""
    hashes = KeyedHash(lambda: b"k" * 32)
    one = hashes.of("lab", "A", "x")
    identity, digest = "52652cf5e45f2c18", "63ee571a9691bd4c6dc66feb38f6e76cd3fe61ddfb2eaea67b84f4f960920ab5"
    assert one == f"hmac-sha256:{identity}:{digest}"
    others = [
        hashes.of("lab", "A", "y"),
        KeyedHash(lambda: b"other").of("lab", "A", "x"),
        "hmac-sha256:1",
        "x:1:2",
        None,
    ]
    assert [hashed_with_other_key(one, other) for other in others] == [False, True, False, False, False]
    assert not hashed_with_other_key(None, one)


def test_plaintext_without_padding_is_damaged() -> None:
    salt, keys = b"salt", hashlib.pbkdf2_hmac("sha256", b"pw", b"salt", 10_000, 80)
    body = b"\n".join(
        part.hex().encode() for part in (salt, hmac.digest(keys[32:64], b"no padding", "sha256"), b"no padding")
    )
    with pytest.raises(MalformedVault):
        decrypt(f"$ANSIBLE_VAULT;1.1;AES256\n{body.hex()}\n", [("", b"pw")])
