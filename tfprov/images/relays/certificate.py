"""The certificate of one run, which every relay shows and the only one that it accepts."""

from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_BEGIN, _END = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
"""Clocks of hosts may be wrong. The certificate ends with the relays that know it."""


def make_certificate() -> bytes:
    """Return a new key and its self-signed certificate, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tfprov relay")])
    certificate = (
        x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGIN)
        .not_valid_after(_END)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private + certificate.public_bytes(Encoding.PEM)
