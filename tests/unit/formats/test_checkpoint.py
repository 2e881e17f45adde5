import importlib
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tfprov.formats.checkpoint import (
    NO_STEP,
    CheckpointFiles,
    checkpoint_state,
    checkpoints,
    final_models,
    is_leftover,
    is_within,
    last_component,
    model_files,
    model_roots,
    newest_whole,
    parse_state,
    step_of,
)

FILE_NAMES = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1)
PATHS = st.text(st.characters(exclude_categories=["Cs"]))


def files(prefix: str, total: int = 1) -> list[str]:
    return [f"{prefix}.index", *(f"{prefix}.data-{shard:05d}-of-{total:05d}" for shard in range(total))]


def test_a_checkpoint_of_the_graph_api_has_an_index_shards_and_a_meta_file() -> None:
    names = [*files("model.ckpt-448", 2), "model.ckpt-448.meta", "checkpoint", "graph.pbtxt", "events.out.tfevents.1.a"]

    assert checkpoints(names) == [
        CheckpointFiles(
            prefix="model.ckpt-448",
            step=448,
            files=(
                "model.ckpt-448.data-00000-of-00002",
                "model.ckpt-448.data-00001-of-00002",
                "model.ckpt-448.index",
                "model.ckpt-448.meta",
            ),
            missing=(),
        )
    ]


def test_checkpoints_come_in_the_order_of_their_steps_and_not_of_their_names() -> None:
    names = [*files("ckpt-10"), *files("ckpt-9"), *files("model.ckpt-9"), *files("cp.ckpt")]

    assert [checkpoint.prefix for checkpoint in checkpoints(names)] == ["cp.ckpt", "ckpt-9", "model.ckpt-9", "ckpt-10"]
    assert newest_whole(names) == "ckpt-10"


@pytest.mark.parametrize(
    ("prefix", "step"),
    [
        ("model.ckpt-448", 448),
        ("ckpt-5", 5),
        ("a-1-b-2", 2),
        ("cp-0004.ckpt", 4),
        ("cp.ckpt", NO_STEP),
        ("weights.05-0.23", NO_STEP),
        ("ckpt-", NO_STEP),
        ("ckpt5", NO_STEP),
        ("ckpt-٣", NO_STEP),
        ("ckpt-" + "9" * 5000, NO_STEP),
    ],
)
def test_the_step_is_the_number_at_the_end_of_the_prefix(prefix: str, step: int) -> None:
    assert step_of(prefix) == step


def test_a_checkpoint_without_its_index_is_not_whole() -> None:
    (checkpoint,) = checkpoints(["ckpt-5.data-00000-of-00001"])

    assert checkpoint.missing == ("ckpt-5.index",)
    assert not checkpoint.whole


def test_a_checkpoint_names_the_shards_it_misses() -> None:
    names = files("ckpt-5", 3)
    names.remove("ckpt-5.data-00001-of-00003")

    assert checkpoints(names)[0].missing == ("ckpt-5.data-00001-of-00003",)


def test_an_index_alone_misses_shards_of_an_unknown_number() -> None:
    (checkpoint,) = checkpoints(["ckpt-5.index", "ckpt-5.meta"])

    assert checkpoint.missing == ("ckpt-5.data-?????-of-?????",)
    assert checkpoint.files == ("ckpt-5.index", "ckpt-5.meta")


def test_a_meta_file_alone_is_no_checkpoint() -> None:
    assert checkpoints(["ckpt-5.meta", "checkpoint", ".index", ".data-00000-of-00001"]) == []


def test_shards_of_two_saves_conflict_even_if_each_is_complete() -> None:
    (checkpoint,) = checkpoints({*files("ckpt-5", 1), *files("ckpt-5", 2)})

    assert (checkpoint.conflict, checkpoint.missing, checkpoint.whole) == ("shards of 1 and of 2", (), False)


def test_missing_shards_of_two_saves_are_named() -> None:
    (checkpoint,) = checkpoints(["ckpt-5.index", "ckpt-5.data-00000-of-00002", "ckpt-5.data-00000-of-00001"])

    assert (checkpoint.conflict, checkpoint.missing) == ("shards of 1 and of 2", ("ckpt-5.data-00001-of-00002",))


@pytest.mark.parametrize("shard", [2, 3])
def test_a_shard_beyond_the_number_of_shards_is_a_conflict(shard: int) -> None:
    (checkpoint,) = checkpoints([*files("ckpt-5", 2), f"ckpt-5.data-0000{shard}-of-00002"])

    assert (checkpoint.conflict, checkpoint.whole) == (f"shard {shard} of only 2", False)


@pytest.mark.parametrize(
    "name",
    [
        "ckpt-6.index.tempstate1234567890",
        "ckpt-6.data-00000-of-00001.tempstate1234567890",
        "ckpt-6_temp",
        "ckpt-6_temp/part-00000-of-00001.data-00000-of-00001",
        "ckpt-6_temp.data-00000-of-00001",
        "model.ckpt-6_temp_0a1b2c.data-00000-of-00001",
        "ckpt-6.index.part",
        "ckpt-6.part.index",
        "ckpt-6.data-0-of-1",
        "ckpt-6.index\n",
        "checkpoint.tmp0a1b2c",
    ],
)
def test_leftovers_are_not_checkpoints(name: str) -> None:
    assert newest_whole([*files("ckpt-5"), name]) == "ckpt-5"
    assert len(checkpoints([*files("ckpt-5"), name])) == 1


LEFTOVERS = [
    "a.index.tempstate12", "a/ckpt-6.data-00000-of-00001.tempstate1", "ckpt-6_temp", "ckpt-6_temp/x", "a/ckpt-6_temp_0f/x",
    "x_temp/part-00000", "x_temp_0f/part-1", "a.part", "a.part/x",
]  # fmt: skip
"""What a killed save or a transfer leaves."""
KEPT = [
    "a",
    "ckpt-6.index",
    "cpu_temp/events",
    "cpu_temp/part-x",
    "room-a_temp",
    "ckpt-6_temps",
    "a.parts",
    "part",
    "a_part",
]


def test_what_a_killed_save_left_is_known_by_its_name() -> None:
    assert [path for path in (*KEPT, *LEFTOVERS) if is_leftover(path)] == LEFTOVERS


def test_what_is_within_a_directory() -> None:
    inside = [("a", "a"), ("a/b", "a"), ("a/b/c", "a/b"), ("a", "."), ("/a", "/"), ("/a/b", "/a"), ("/a/b", "/a/")]
    outside = [("ab", "a"), ("a", "a/b"), ("/a", "."), ("b", "a"), ("b/a", "a")]
    assert [pair for pair in (*inside, *outside) if is_within(*pair)] == inside


def test_models_are_known_by_their_names_and_gathered_by_their_directories() -> None:
    models = [
        "/ck/checkpoint", "/ck/m-1.data-00000-of-00001", "/ck/m-1.index", "/m.keras", "a/b/saved_model.pb", "a/b/x.pth",
        "best.weights.h5", "o/_CHECKPOINT_METADATA", "o/manifest.ocdbt", "saved/saved_model.pbtxt",
    ]  # fmt: skip
    others = [
        "a.index",
        "a.txt",
        "keras",
        ".keras/a.keras",
        "x/.cache/m.h5",
        "x/.venv/m.h5",
        "m.ckpt.data-0-of-1",
        "saved_model",
    ]
    assert model_files([*reversed(models), *others]) == models
    assert model_roots(models) == ["/ck", "/m.keras", "a/b", "best.weights.h5", "o", "saved"]
    assert model_roots(["/checkpoint", "/m.h5"]) == ["/"]
    assert model_roots(["checkpoint", "a/m.h5", "m.h5"]) == ["."]
    assert final_models(models) == ["/m.keras", "a/b/saved_model.pb", "a/b/x.pth", "saved/saved_model.pbtxt"]
    assert final_models(["saved_model.pb", "m.h5", "/m.h5"]) == ["saved_model.pb", "m.h5"]


def test_a_prefix_may_have_temp_in_its_name() -> None:
    for prefix in ("room_temperature_template-3", "room_temp", "room_temp-3", "cpu_temp_5", "room-a_temp"):
        assert newest_whole(files(prefix)) == prefix


def test_the_newest_whole_checkpoint_is_not_always_the_newest() -> None:
    assert newest_whole([*files("ckpt-5"), "ckpt-6.data-00000-of-00001"]) == "ckpt-5"
    assert newest_whole(["ckpt-6.data-00000-of-00001"]) is None
    assert newest_whole([]) is None


@given(prefix=FILE_NAMES, total=st.integers(1, 9), dropped=st.sets(st.integers(0, 9), max_size=9))
def test_a_checkpoint_is_whole_exactly_if_all_its_files_are_there(prefix: str, total: int, dropped: set[int]) -> None:
    assume(not prefix.endswith((".part", ".tempstate")) and "_temp" not in prefix)
    every = files(prefix, total)
    names = [name for place, name in enumerate(every) if place not in dropped]
    listed = checkpoints(names)

    assert [name for checkpoint in listed for name in checkpoint.files] == sorted(names)
    assert newest_whole(names) == (prefix if names == every else None)


@given(st.lists(st.text(st.sampled_from("ckpt-015.indexdataof/_temp\n\udc80"))))
def test_no_directory_listing_is_an_error(names: list[str]) -> None:
    assert {name for checkpoint in checkpoints(names) for name in checkpoint.files} <= set(names)


@pytest.mark.parametrize(
    ("path", "last"),
    [("/x/y/model.ckpt-3", "model.ckpt-3"), ("ckpt-3", "ckpt-3"), ("a/b", "b"), ("gs://bucket/run/ckpt-3", "ckpt-3")],
)
def test_a_relative_path_is_the_last_component(path: str, last: str) -> None:
    assert last_component(path) == last


@given(newest=FILE_NAMES, others=st.lists(FILE_NAMES))
def test_a_written_file_is_read_back(newest: str, others: list[str]) -> None:
    assert parse_state(checkpoint_state(newest, others)) == list(dict.fromkeys([newest, *others]))


def test_absolute_paths_are_written_relative() -> None:
    text = checkpoint_state("/train/model.ckpt-448", ["/train/model.ckpt-1", "/train/model.ckpt-448"])

    assert text == (
        'model_checkpoint_path: "model.ckpt-448"\n'
        'all_model_checkpoint_paths: "model.ckpt-1"\n'
        'all_model_checkpoint_paths: "model.ckpt-448"\n'
    )


def test_a_file_name_that_is_not_utf8_is_written_and_read_back() -> None:
    assert checkpoint_state("ckpt\udcff-1", []).startswith('model_checkpoint_path: "ckpt\\377-1"')
    assert checkpoint_state("a\x1f ~\x7f", []).startswith('model_checkpoint_path: "a\\037 ~\\177"')
    assert parse_state(checkpoint_state("ckpt\udcff-1", [])) == ["ckpt\udcff-1"]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('model_checkpoint_path: "/d/ckpt-2"\nall_model_checkpoint_timestamps: 1.7e+09', ["/d/ckpt-2"]),
        ("model_checkpoint_path:'a'", ["a"]),
        ('model_checkpoint_path: "a" # "not this"\n  "b"; ', ["ab"]),
        (r'model_checkpoint_path: "\303" "\251\x2d\u00e9\q\t\0"', ["é-é\\q\t\0"]),
        ('model_checkpoint_path: "a" model_checkpoint_path: "b"', ["b"]),
        ('all_model_checkpoint_paths: "a" all_model_checkpoint_paths: "a"', ["a"]),
        ('model_checkpoint_path: ""', []),
        ("# nothing", []),
    ],
)
def test_the_text_format_is_read(text: str, paths: list[str]) -> None:
    assert parse_state(text) == paths


@pytest.mark.parametrize(
    "text",
    [
        'model_checkpoint_path: "ckpt-1',
        'model_checkpoint_path: "ckpt-1"\nall_model',
        'model_checkpoint_path: "ckpt\n-1"',
        'model_checkpoint_path: "\\777"',
        'model_checkpoint_path: "\\ud800"',
        'model_checkpoint_path: "\\U00110000"',
        'model_checkpoint_path: "\ud800"',
        'model_checkpoint_path "ckpt-1"',
        "<html>",
    ],
)
def test_an_invalid_file_has_no_paths(text: str) -> None:
    assert parse_state(text) == []


def test_a_hostile_file_takes_one_pass() -> None:
    assert parse_state("#" * 100_000) == []
    assert parse_state('model_checkpoint_path: "' + "\\" * 100_001) == []
    assert parse_state("a: " + '"" ' * 50_000 + "!") == []


@given(st.text())
def test_no_text_is_an_error(text: str) -> None:
    parse_state(text)


@pytest.fixture(scope="module")
def protobuf() -> Any:
    """TensorFlow's own CheckpointState: its generated module stands alone, so TensorFlow need not be imported."""
    pytest.importorskip("google.protobuf.text_format")
    tensorflow = importlib.util.find_spec("tensorflow")
    if not tensorflow or not tensorflow.submodule_search_locations:
        pytest.skip("TensorFlow is not installed")
    path = Path(tensorflow.submodule_search_locations[0], "python", "training", "checkpoint_state_pb2.py")
    spec = importlib.util.spec_from_file_location("checkpoint_state_pb2", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CheckpointState


def text_format() -> Any:
    return importlib.import_module("google.protobuf.text_format")


def read_by_protobuf(message: Any, text: str) -> list[str]:
    state = text_format().Merge(text, message())
    paths = [state.model_checkpoint_path, *state.all_model_checkpoint_paths]
    return [path for path in dict.fromkeys(paths) if path]


@given(newest=FILE_NAMES, others=st.lists(FILE_NAMES))
def test_protobuf_reads_a_written_file(protobuf: Any, newest: str, others: list[str]) -> None:
    assert read_by_protobuf(protobuf, checkpoint_state(newest, others)) == list(dict.fromkeys([newest, *others]))


@given(newest=PATHS, others=st.lists(PATHS), timestamp=st.floats(), as_utf8=st.booleans())
def test_a_file_that_protobuf_writes_is_read(
    protobuf: Any, newest: str, others: list[str], timestamp: float, as_utf8: bool
) -> None:
    state = protobuf(
        model_checkpoint_path=newest,
        all_model_checkpoint_paths=others,
        all_model_checkpoint_timestamps=[timestamp],
        last_preserved_timestamp=timestamp,
    )
    text = text_format().MessageToString(state, as_utf8=as_utf8)

    assert parse_state(text) == [path for path in dict.fromkeys([newest, *others]) if path]


PIECES = ["model_checkpoint_path", ":", " ", '"', "'", "\\", "3", "7", "x", "q", "a", "é", "#", "\n", ";", ",", "1e9"]
PIECES += ['model_checkpoint_path: "', 'all_model_checkpoint_paths: "', "last_preserved_timestamp: ", '"\n']


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_every_file_that_protobuf_reads_is_read_alike(protobuf: Any, text: str) -> None:
    try:
        paths = read_by_protobuf(protobuf, text)
    except (text_format().ParseError, UnicodeError):
        return
    assert parse_state(text) == paths
