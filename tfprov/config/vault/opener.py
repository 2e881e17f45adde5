"""Opens what ansible-vault encrypted, with Ansible's own code. Not imported: `opening` runs it in a process of its own.

It may be another Python than tfprov's, so it needs nothing but the standard library and Ansible. It reads one JSON value
per line from its standard input and answers each with a line: first the passwords, as pairs of a vault id and the
password in base64, then one encrypted text after another.
"""

import base64
import json
import os
import sys
from typing import Any


def main() -> None:
    """Answer until the standard input ends."""
    with os.fdopen(os.dup(1), "wb", buffering=0) as answers:
        os.dup2(2, 1)  # whatever Ansible has to say is no answer

        def answer(**what: str) -> None:
            answers.write(json.dumps(what).encode() + b"\n")

        try:
            from ansible.parsing.vault import VaultLib, VaultSecret  # noqa: PLC0415  it takes half a second, or fails
        except Exception as error:
            answer(failed=f"{type(error).__name__}: {error}")
            return
        answer()
        passwords = json.loads(sys.stdin.readline() or "[]")
        library = VaultLib([(label, VaultSecret(base64.b64decode(password))) for label, password in passwords])
        for line in sys.stdin:
            answer(**opened(library, json.loads(line)))


def opened(library: Any, text: str) -> "dict[str, str]":
    """Return what was encrypted, or whether it was a password that does not fit or a text that is broken."""
    from ansible.errors import AnsibleError  # noqa: PLC0415
    from ansible.parsing.vault import AnsibleVaultFormatError  # noqa: PLC0415

    try:
        return {"opened": base64.b64encode(library.decrypt(text)).decode()}
    except AnsibleVaultFormatError:
        return {"refused": "broken"}
    except AnsibleError as error:
        return {"refused": "password" if "no vault secrets" in str(error) else "broken"}
    except Exception:  # a broken text has many ways to fail
        return {"refused": "broken"}


if __name__ == "__main__":
    main()
