"""Decrypts what ansible-vault encrypted, when it is first used."""

import hashlib
import hmac
from binascii import Error, unhexlify
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tfprov.errors import InvalidInput, Position, Problem, hide_secret, printable
from tfprov.vault.passwords import CONFIGURED, IDENTITIES, OPTIONS, PASSWORD_FILE, Passwords, PasswordSource

_CIPHER = "AES256"
_ITERATIONS = 10_000
"""Of PBKDF2 with SHA-256: about 5 ms."""
_KEY, _NONCE = 32, 16
"""Bytes of each of the two keys (AES and HMAC), and of the counter's first value."""

VaultSecret = tuple[str, bytes]
"""A vault id and its password."""


class MalformedVault(ValueError):
    """Text that is not in ansible-vault's format, or is damaged."""


class WrongPassword(ValueError):
    """No password fits, or the text was changed after its header."""


def decrypt(text: str, passwords: Sequence[VaultSecret]) -> bytes:
    """Return the plaintext. The passwords with the vault id of `text` are tried first, then the others in order."""
    salt, code, ciphertext = _parse(text)
    for password in _candidates(vault_id(text), passwords):
        keys = hashlib.pbkdf2_hmac("sha256", password, salt, _ITERATIONS, 2 * _KEY + _NONCE)
        if hmac.compare_digest(hmac.digest(keys[_KEY : 2 * _KEY], ciphertext, "sha256"), code):
            return _decrypt_aes(ciphertext, keys[:_KEY], keys[2 * _KEY :])
    raise WrongPassword


def vault_id(text: str) -> str:
    """Return the vault id in the header of an encrypted text, or an empty text."""
    words = _header(text)
    return words[3] if len(words) > 3 else ""


def _header(text: str) -> list[str]:
    return [word.strip() for word in text.split("\n", maxsplit=1)[0].strip().split(";")]


def _candidates(label: str, passwords: Sequence[VaultSecret]) -> Iterator[bytes]:
    yield from (password for name, password in passwords if name == label)
    yield from (password for name, password in passwords if name != label)


def _parse(text: str) -> list[bytes]:
    """Return salt, authentication code and ciphertext: hexadecimal lines, which are hexadecimal once more as a whole."""
    if len(words := _header(text)) < 3 or words[2] != _CIPHER:
        raise MalformedVault
    try:
        body = unhexlify("".join(text.splitlines()[1:]).encode())
        salt, code, ciphertext = (unhexlify(part) for part in body.split(b"\n"))
    except (Error, ValueError):
        raise MalformedVault from None
    return [salt, code, ciphertext]


def _decrypt_aes(ciphertext: bytes, key: bytes, nonce: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415  most need none
    from cryptography.hazmat.primitives.padding import PKCS7  # noqa: PLC0415

    decryptor = Cipher(algorithms.AES(key), modes.CTR(nonce)).decryptor()
    unpadder = PKCS7(algorithms.AES.block_size).unpadder()
    padded = decryptor.update(ciphertext) + decryptor.finalize()
    try:
        return unpadder.update(padded) + unpadder.finalize()
    except ValueError:
        raise MalformedVault from None


HEADER = "$ANSIBLE_VAULT;"
"""The first characters of every encrypted file and value."""

_ENCRYPTED, _NOT_THIS = "encrypted with ansible-vault", "none of the passwords decrypts this value"
_BROKEN = "not valid ansible-vault text: truncated or modified"
_UNENCRYPTED = f"marked as encrypted, and does not begin with `{HEADER}`"
_ENCRYPT = "put there what `ansible-vault encrypt_string` prints, or remove `!vault`"
_GIVE = "name one with --vault-password-file or --ask-vault-pass"


class DecryptionError(InvalidInput):
    """An encrypted value or file that cannot be decrypted; the message repeats nothing of it."""


class Vault:
    """Decrypts texts with `passwords`, which are read when the first text is decrypted.

    Plaintexts are cached: a value of a thousand hosts is decrypted once. `warnings` are about values that were parsed.
    """

    def __init__(self, passwords: Passwords | None = None) -> None:
        self.passwords = passwords or Passwords()
        self._plaintexts: dict[str, str] = {}
        self._secrets: list[VaultSecret] = []
        self._failure: list[Problem] = []
        self.warnings: list[Problem] = []

    @property
    def secrets(self) -> tuple[VaultSecret, ...]:
        """The passwords that were read so far, each with its vault id."""
        return tuple(self._secrets)

    @classmethod
    def with_secrets(cls, secrets: Sequence[VaultSecret], passwords: Passwords) -> "Vault":
        """Return a vault with passwords that another process has read; without any, it reads those of `passwords`."""
        vault = cls(passwords)
        vault._secrets = list(secrets)
        return vault

    def use_password_file(self, password_file: str) -> None:
        """Use the password file of an ansible.cfg, unless an environment variable names another."""
        self.passwords = replace(self.passwords, configured=password_file)

    def warn_unencrypted(self, at: Position) -> None:
        """Warn of a value that is tagged as encrypted and is not; it is an error only if it is used."""
        self.warnings.append(Problem(at, _UNENCRYPTED, _ENCRYPT))

    def decrypt(self, text: str, at: Position) -> str:
        """Return the plaintext of `text`, which is at `at`; DecryptionError says why it cannot be decrypted.

        Without any password, every value repeats the problem of the first.
        """
        if not text.startswith(HEADER):
            raise DecryptionError([Problem(at, _UNENCRYPTED, _ENCRYPT)])
        if text not in self._plaintexts:
            if not self._secrets:
                self._read_passwords(at)
            self._plaintexts[text] = _decode(_decrypt_value(text, self._secrets, at), at)
        return self._plaintexts[text]

    def _read_passwords(self, at: Position) -> None:
        if not self._failure:
            secrets: list[VaultSecret] = []
            try:
                for source in self.passwords.sources():
                    secrets.append((source.vault_id, self._password(source, secrets)))
            except InvalidInput as error:
                self._failure = list(error.problems)
            else:
                self._failure = [] if secrets else [Problem(at, f"{_ENCRYPTED}, and no password is available", _GIVE)]
                self._secrets = secrets
        if self._failure:
            raise DecryptionError(self._failure)

    def _password(self, source: PasswordSource, secrets: list[VaultSecret]) -> bytes:
        """Return the password of `source`, whose file may be encrypted with one of `secrets`."""
        password = self.passwords.read(source)
        if not password.startswith(HEADER.encode()):
            return password
        try:
            return decrypt(password.decode(errors="replace"), secrets).strip(b"\r\n")
        except (MalformedVault, WrongPassword):
            what = f"`{printable(source.location)}` is encrypted itself, and no password before it opens it"
            raise InvalidInput(
                [Problem(Position(source.option), what, "name the password of that file before it")]
            ) from None


def _decrypt_value(text: str, passwords: list[VaultSecret], at: Position) -> bytes:
    try:
        return decrypt(text, passwords)
    except MalformedVault:
        raise DecryptionError([Problem(at, _BROKEN, "copy it again, or encrypt it anew")]) from None
    except WrongPassword:
        label = vault_id(text)
        named = f", whose vault id is `{printable(label)}`" if label else ""
        raise DecryptionError(
            [Problem(at, f"{_NOT_THIS}{named}", "check the password, and that the value is whole")]
        ) from None


def _decode(plaintext: bytes, at: Position) -> str:
    try:
        text = plaintext.decode()
    except UnicodeDecodeError:
        what = "not UTF-8 text once it is decrypted"
        raise DecryptionError([Problem(at, what, "encrypt text, and put other files into `mounts`")]) from None
    hide_secret(text)
    return text


def is_decryption_problem(problem: Problem) -> bool:
    """Whether `problem` is about a value that cannot be decrypted, or about a vault password."""
    is_option = problem.at.file in (*OPTIONS, IDENTITIES, PASSWORD_FILE, CONFIGURED)
    return is_option or problem.what.startswith((_ENCRYPTED, _NOT_THIS, _BROKEN, _UNENCRYPTED))
