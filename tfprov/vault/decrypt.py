"""What ansible-vault encrypted, decrypted when it is needed, and not before."""

import hashlib
import hmac
from binascii import Error, unhexlify
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tfprov.errors import InvalidInput, Position, Problem, hide, shown
from tfprov.vault.passwords import CONFIGURED, IDENTITIES, OPTIONS, PASSWORD_FILE, Passwords, PasswordSource

_CIPHER = "AES256"
_ITERATIONS = 10_000
"""Of PBKDF2 with SHA-256: about 5 ms."""
_KEY, _NONCE = 32, 16
"""Bytes: of the keys that decrypt and that authenticate, and of the counter's first value."""

VaultSecret = tuple[str, bytes]
"""A vault id and its password."""


class MalformedVault(ValueError):
    """A text that ansible-vault did not write like this."""


class WrongPassword(ValueError):
    """No password fits, or the text was changed behind its head."""


def decrypt(text: str, passwords: Sequence[VaultSecret]) -> bytes:
    """Return what was encrypted. The password with the vault id of `text` is tried first, then all in their order."""
    salt, code, ciphertext = _parse(text)
    for password in _candidates(vault_id(text), passwords):
        keys = hashlib.pbkdf2_hmac("sha256", password, salt, _ITERATIONS, 2 * _KEY + _NONCE)
        if hmac.compare_digest(hmac.digest(keys[_KEY : 2 * _KEY], ciphertext, "sha256"), code):
            return _decrypt_aes(ciphertext, keys[:_KEY], keys[2 * _KEY :])
    raise WrongPassword


def vault_id(text: str) -> str:
    """Return the vault id in the header of an encrypted text; empty when it has none."""
    words = _header(text)
    return words[3] if len(words) > 3 else ""


def _header(text: str) -> list[str]:
    return [word.strip() for word in text.split("\n", maxsplit=1)[0].strip().split(";")]


def _candidates(label: str, passwords: Sequence[VaultSecret]) -> Iterator[bytes]:
    yield from (password for name, password in passwords if name == label)
    yield from (password for name, password in passwords if name != label)


def _parse(text: str) -> list[bytes]:
    """Return salt, authentication code and ciphertext: hexadecimal, a line each, and once more hexadecimal as a whole."""
    if len(words := _header(text)) < 3 or words[2] != _CIPHER:
        raise MalformedVault
    try:
        body = unhexlify("".join(text.splitlines()[1:]).encode())
        salt, code, ciphertext = (unhexlify(part) for part in body.split(b"\n", 2))
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
"""Begins every encrypted file and value."""

_ENCRYPTED, _NOT_THIS = "encrypted with ansible-vault", "no given password decrypts this value"
_BROKEN = "not what ansible-vault writes: cut off, or changed since"
_UNENCRYPTED = f"marked as encrypted, and does not begin with `{HEADER}`"
_ENCRYPT = "put there what `ansible-vault encrypt_string` prints, or remove `!vault`"
_GIVE = "give it with --vault-password-file or --ask-vault-pass"


class DecryptionError(InvalidInput):
    """Something encrypted stays closed; what is said of it tells nothing of what it is."""


class Vault:
    """Opens encrypted texts with `passwords`, which are read when the first of them is needed.

    What has been opened is remembered, so that a value of a thousand hosts is opened once. `warnings` are about the
    values that were read, for whoever reads them.
    """

    def __init__(self, passwords: Passwords | None = None) -> None:
        self.passwords = passwords or Passwords()
        self.opened: dict[str, str] = {}
        self._known: list[VaultSecret] = []
        self._failure: list[Problem] = []
        self.warnings: list[Problem] = []

    def use(self, password_file: str) -> None:
        """Take a password from the file that an ansible.cfg names, unless a variable of the environment names another."""
        self.passwords = replace(self.passwords, configured=password_file)

    def note_unencrypted(self, at: Position) -> None:
        """Warn of a text that is marked as encrypted and is not: it does no harm before it is used."""
        self.warnings.append(Problem(at, _UNENCRYPTED, _ENCRYPT))

    @property
    def failed(self) -> bool:
        """Whether nothing can be opened, because there is no password."""
        return bool(self._failure)

    def open(self, text: str, at: Position) -> str:
        """Return what `text`, which stands at `at`, was before it was encrypted; InvalidInput says why not.

        Without a password at all every value has the same complaint: that of the first.
        """
        if not text.startswith(HEADER):
            raise DecryptionError([Problem(at, _UNENCRYPTED, _ENCRYPT)])
        if text not in self.opened:
            if not self._known:
                self._read_passwords(at)
            self.opened[text] = _decode(_decrypt_value(text, self._known, at), at)
        return self.opened[text]

    def _read_passwords(self, at: Position) -> None:
        if not self._failure:
            known: list[VaultSecret] = []
            try:
                for source in self.passwords.sources():
                    known.append((source.label, self._password(source, known)))
            except InvalidInput as error:
                self._failure = list(error.problems)
            else:
                self._failure = [] if known else [Problem(at, f"{_ENCRYPTED}, and no password is given", _GIVE)]
                self._known = known
        if self._failure:
            raise DecryptionError(self._failure)

    def _password(self, source: PasswordSource, known: list[VaultSecret]) -> bytes:
        """Return a password; the file it is in may be encrypted itself, with one of those before it."""
        password = self.passwords.read(source)
        if not password.startswith(HEADER.encode()):
            return password
        try:
            return decrypt(password.decode(errors="replace"), known).strip(b"\r\n")
        except (MalformedVault, WrongPassword):
            what = f"`{shown(source.place)}` is encrypted itself, and no password before it opens it"
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
        named = f", whose vault id is `{shown(label)}`" if label else ""
        raise DecryptionError(
            [Problem(at, f"{_NOT_THIS}{named}", "check the password, and that the value is whole")]
        ) from None


def _decode(plaintext: bytes, at: Position) -> str:
    try:
        text = plaintext.decode()
    except UnicodeDecodeError:
        what = "not UTF-8 text once it is decrypted"
        raise DecryptionError([Problem(at, what, "encrypt text, and put other files into `mounts`")]) from None
    hide(text)
    return text


def is_decryption_problem(problem: Problem) -> bool:
    """Whether `problem` is about something encrypted that could not be opened, or about its password."""
    is_option = problem.at.file in (*OPTIONS, IDENTITIES, PASSWORD_FILE, CONFIGURED)
    return is_option or problem.what.startswith((_ENCRYPTED, _NOT_THIS, _BROKEN, _UNENCRYPTED))
