"""What ansible-vault writes, decrypted: AES-256 in counter mode, with an HMAC that tells a wrong password from a right one.

Versions 1.1 and 1.2 of the format, which differ in the vault id of the header only. The numbers are ansible-core's
(`ansible.parsing.vault`), whose own code is what the tests compare with.
"""

import hashlib
import hmac
from binascii import Error, unhexlify
from collections.abc import Iterator, Sequence

_CIPHER = "AES256"
_ITERATIONS = 10_000
"""Of PBKDF2 with SHA-256: about 5 ms."""
_KEY, _NONCE = 32, 16
"""Bytes: of the keys that decrypt and that authenticate, and of the counter's first value."""

Labelled = tuple[str, bytes]
"""A vault id and its password."""


class Broken(ValueError):
    """A text that ansible-vault did not write like this."""


class WrongPassword(ValueError):
    """No password fits, or the text was changed behind its head."""


def decrypt(text: str, passwords: Sequence[Labelled]) -> bytes:
    """Return what was encrypted. The password with the vault id of `text` is tried first, then all in their order."""
    salt, code, ciphertext = _parts(text)
    for password in _candidates(vault_id(text), passwords):
        keys = hashlib.pbkdf2_hmac("sha256", password, salt, _ITERATIONS, 2 * _KEY + _NONCE)
        if hmac.compare_digest(hmac.digest(keys[_KEY : 2 * _KEY], ciphertext, "sha256"), code):
            return _decrypted(ciphertext, keys[:_KEY], keys[2 * _KEY :])
    raise WrongPassword


def vault_id(text: str) -> str:
    """Return the vault id in the header of an encrypted text; empty when it has none."""
    words = _header(text)
    return words[3] if len(words) > 3 else ""


def _header(text: str) -> list[str]:
    return [word.strip() for word in text.split("\n", maxsplit=1)[0].strip().split(";")]


def _candidates(label: str, passwords: Sequence[Labelled]) -> Iterator[bytes]:
    yield from (password for name, password in passwords if name == label)
    yield from (password for name, password in passwords if name != label)


def _parts(text: str) -> list[bytes]:
    """Return salt, authentication code and ciphertext: hexadecimal, a line each, and once more hexadecimal as a whole."""
    if len(words := _header(text)) < 3 or words[2] != _CIPHER:
        raise Broken
    try:
        body = unhexlify("".join(text.splitlines()[1:]).encode())
        salt, code, ciphertext = (unhexlify(part) for part in body.split(b"\n", 2))
    except (Error, ValueError):
        raise Broken from None
    return [salt, code, ciphertext]


def _decrypted(ciphertext: bytes, key: bytes, nonce: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415  most need none
    from cryptography.hazmat.primitives.padding import PKCS7  # noqa: PLC0415

    decryptor = Cipher(algorithms.AES(key), modes.CTR(nonce)).decryptor()
    unpadder = PKCS7(algorithms.AES.block_size).unpadder()
    padded = decryptor.update(ciphertext) + decryptor.finalize()
    try:
        return unpadder.update(padded) + unpadder.finalize()
    except ValueError:
        raise Broken from None
