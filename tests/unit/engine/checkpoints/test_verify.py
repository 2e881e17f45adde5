"""The verdicts on gathered checkpoints; what each damage is called is in unit/formats/test_tensor_bundle.py."""

from pathlib import Path

from tests.support.bundles import write_bundle
from tfprov.engine.checkpoints.verify import Verification, verify


def test_each_prefix_has_its_verdict(tmp_path: Path) -> None:
    whole, damaged, missing = (tmp_path / name for name in ("model.ckpt-5", "model.ckpt-9", "model.ckpt-12"))
    for prefix in (whole, damaged):
        write_bundle(prefix, {"w": b"1234", "b": b"5678"})
    data = tmp_path / "model.ckpt-9.data-00000-of-00001"
    data.write_bytes(b"56781235")
    assert verify([whole, damaged, missing]) == {
        "model.ckpt-5": Verification(2),
        "model.ckpt-9": Verification(0, f"{data.name}: tensor w: its data do not match their checksum"),
        "model.ckpt-12": Verification(0, "model.ckpt-12.index: No such file or directory"),
    }


def test_without_prefixes_nothing_is_read() -> None:
    assert verify([]) == {}
