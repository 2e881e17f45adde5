"""Which layers an engine uploads, and when the whole image is faster."""

from collections.abc import Sequence

import pytest

from tests.support.delivery_images import load_image, new_layout
from tfprov.images.exports.missing_layers import MissingLayers, missing_layers, stored_layers, upload_limit
from tfprov.images.oci_spec import DOCKER_LAYER, OCI_LAYER, Descriptor

MB = 10**6


def layer(number: int, suffix: str = "") -> Descriptor:
    return Descriptor(media_type=f"{OCI_LAYER}{suffix}", digest=f"sha256:{number:064x}", size=1)


def decide(diff_ids: str, stored: str, *sizes: float, suffix: str = "") -> MissingLayers | None:
    """Decide for an image with layers of `sizes` MB; 0 is a step without a layer."""
    history = [{"Size": int(size * MB)} for size in sizes]
    return missing_layers(list(diff_ids), history, {diff_id: layer(1, suffix) for diff_id in stored})


@pytest.mark.parametrize(
    ("diff_ids", "stored", "sizes", "uploaded", "lower", "size"),
    [
        ("abc", "ab", (100, 200, 0, 1, 0), "c", "ab", 1),
        ("abc", "a", (500, 10, 1), "bc", "a", 11),
        ("abcd", "acd", (500, 10, 1, 1), "bcd", "a", 12),
        ("abab", "a", (500, 3, 500, 3), "b", "a", 506),
        ("abc", "abc", (1, 1, 1), "", "abc", 0),
        ("abc", "ab", (100, 50, 0), "c", "ab", 50),
    ],
    ids=["the last", "two", "with those above", "twice", "none", "one without files, whose size is not known"],
)
def test_what_is_uploaded(  # noqa: PLR0917
    diff_ids: str, stored: str, sizes: Sequence[float], uploaded: str, lower: str, size: float
) -> None:
    missing = decide(diff_ids, stored, *sizes)
    if size * 5 > sum(sizes):
        assert missing is None, "it is an upper bound"
        return
    assert missing == MissingLayers(tuple(uploaded), tuple(lower), int(size * MB))


@pytest.mark.parametrize(
    ("diff_ids", "stored", "sizes", "suffix"),
    [
        ("abc", "", (500, 500, 1), ""),
        ("abc", "bc", (500, 500, 1), ""),
        ("ab", "a", (10, 1), ""),
        ("ab", "a", (100, 25), ""),
        ("ab", "a", (500, 1), "+zstd"),
    ],
    ids=["nothing is there", "not the lowest", "a small image", "much is missing", "zstd, which is not read"],
)
def test_the_whole_image_is_taken(diff_ids: str, stored: str, sizes: Sequence[float], suffix: str) -> None:
    assert decide(diff_ids, stored, *sizes, suffix=suffix) is None


@pytest.mark.parametrize(("more", "uploads"), [(0, False), (1, True)])
def test_an_upload_takes_five_times_as_long_and_as_long_as_16_mib_to_begin(more: int, uploads: bool) -> None:
    history = [{"Size": (16 << 20) + 4 * 1000 + more}, {"Size": 1000}]
    missing = missing_layers("ab", history, {"a": layer(1)})
    assert missing == (MissingLayers(("b",), ("a",), 1000) if uploads else None)


def test_a_layer_that_is_there_twice_is_taken_uncompressed(tmp_path: object) -> None:
    image = load_image(new_layout(tmp_path))  # type: ignore[arg-type]
    compressed = tuple(it.model_copy(update={"media_type": f"{DOCKER_LAYER}.gzip"}) for it in image.layers)
    other = type(image)(image.manifest, image.config, compressed, image.diff_ids, image.platform, image.labels)
    for images in ({"a": image, "b": other}, {"a": other, "b": image}):
        assert stored_layers(images) == dict(zip(image.diff_ids, image.layers, strict=True))
    assert set(stored_layers({"b": other}).values()) == set(compressed)


def test_a_layer_may_have_four_times_the_bytes_of_its_files_and_256_mib_for_small_ones() -> None:
    assert (upload_limit(0), upload_limit(1000)) == (268_435_456, 268_439_456)
