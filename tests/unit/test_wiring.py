"""Flags and TF_CONFIG round-trip, in every form that programs and launchers write."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfprov.wiring import (
    FLAGS,
    FLAGS_VARIABLE,
    OUTSIDE,
    STRATEGY_VARIABLE,
    Wiring,
    WiringError,
    from_flags,
    from_names,
    from_tf_config,
    to_flags,
    to_names,
    to_tf_config,
)

names = st.text("abz09.-", min_size=1, max_size=12)
addresses = st.builds("{}:{}".format, names, st.integers(1, 65535))
members = st.lists(addresses, min_size=1, max_size=4, unique=True).map(tuple)
PS, WORKERS = ("h0:2222",), ("h1:2222", "h2:2222")
CLUSTER = {"ps": PS, "worker": WORKERS}


@st.composite
def wirings(draw: st.DrawFn, jobs: tuple[str, ...] = ("ps", "worker", "chief")) -> Wiring:
    names = draw(st.lists(st.sampled_from(jobs), unique=True))
    cluster = {name: draw(members) for name in names}
    job = draw(st.sampled_from([*(names or jobs), *OUTSIDE]))
    top = len(cluster[job]) - 1 if job in cluster else 3
    return Wiring(job, draw(st.integers(0, top)), cluster)


# --- there and back --------------------------------------------------------------------------------------------------


@given(wirings(jobs=("ps", "worker")))
def test_flags_carry_a_whole_wiring(wiring: Wiring) -> None:
    assert from_flags(to_flags(wiring)) == wiring


@given(wirings(jobs=("ps", "worker")), st.permutations(["role", "id", "servers", "peers"]))
def test_renamed_flags_carry_a_whole_wiring(wiring: Wiring, renamed: list[str]) -> None:
    names = dict(zip(FLAGS, renamed, strict=True))
    assert from_flags(to_flags(wiring, names), names) == wiring
    assert from_flags(to_flags(wiring, names)) is None


@given(st.dictionaries(st.sampled_from(FLAGS), st.sampled_from(["role", "id", "servers", "peers"])))
def test_the_names_of_the_flags_come_back_out_of_the_environment(names: dict[str, str]) -> None:
    assert from_names(to_names(names)) == names


def test_names_are_read_with_their_dashes_too() -> None:
    assert from_names('{"job_name": "--job", "ps_hosts": "-ps"}') == {"job_name": "job", "ps_hosts": "ps"}
    assert from_names("") == {}


def test_a_flag_that_is_left_out_leaves_the_cluster_to_tf_config() -> None:
    wiring, names = Wiring("worker", 1, CLUSTER), {"ps_hosts": "", "job_name": "role"}
    assert to_flags(wiring, names) == ["--role=worker", "--task_index=1", "--worker_hosts=h1:2222,h2:2222"]
    assert from_flags(to_flags(wiring, names), from_names(to_names(names))) is None


@given(wirings(jobs=("ps", "worker")), st.lists(st.sampled_from(["train", "--lr=0.1", "-v", "--x", "a b", "--no"])))
def test_other_arguments_in_front_change_nothing(wiring: Wiring, others: list[str]) -> None:
    assert from_flags([*others, *to_flags(wiring)]) == wiring


@given(wirings())
def test_a_tf_config_carries_a_whole_wiring(wiring: Wiring) -> None:
    assert from_tf_config(to_tf_config(wiring)) == wiring


def test_a_tf_config_is_the_json_that_tensorflow_documents() -> None:
    assert json.loads(to_tf_config(Wiring("worker", 1, CLUSTER))) == {
        "cluster": {"ps": ["h0:2222"], "worker": ["h1:2222", "h2:2222"]},
        "task": {"type": "worker", "index": 1},
    }


def test_a_tf_config_is_the_same_text_in_whatever_order_the_jobs_come() -> None:
    backwards = Wiring("ps", 0, dict(reversed(CLUSTER.items())))
    assert to_tf_config(backwards) == to_tf_config(Wiring("ps", 0, CLUSTER))


# --- the forms that absl and argparse accept -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv",
    [
        ["--job_name=worker", "--task_index=1", "--ps_hosts=h0:2222", "--worker_hosts=h1:2222,h2:2222"],
        ["--job_name", "worker", "--task_index", "1", "--ps_hosts", "h0:2222", "--worker_hosts", "h1:2222,h2:2222"],
        ["-job_name=worker", "-task_index=1", "-ps_hosts=h0:2222", "-worker_hosts=h1:2222,h2:2222"],
        ["-job_name", "worker", "-task_index", "1", "-ps_hosts", "h0:2222", "-worker_hosts", "h1:2222,h2:2222"],
    ],
    ids=["--a=b", "--a b", "-a=b", "-a b"],
)
def test_each_form_of_a_flag_is_read(argv: list[str]) -> None:
    assert from_flags(argv) == Wiring("worker", 1, CLUSTER)


def test_the_last_of_two_equal_flags_wins() -> None:
    assert from_flags(["--job_name=ps", "--job_name=worker"]) == Wiring("worker", 0)


def test_an_argument_after_a_double_dash_is_no_flag() -> None:
    assert from_flags(["--", "--job_name=worker"]) is None


def test_without_a_job_name_the_program_trains_alone() -> None:
    assert from_flags([]) is None
    assert from_flags(["--job_name="]) is None
    assert from_flags(["--job_name"]) is None
    assert from_flags(["--task_index=1", "--worker_hosts=h1:1,h2:1"]) is None


def test_the_default_index_is_0() -> None:
    assert from_tf_config('{"task": {"type": "worker"}}') == Wiring("worker", 0)
    assert from_flags(["--job_name=worker", "--worker_hosts=h1:1"]) == Wiring("worker", 0, {"worker": ("h1:1",)})


def test_a_trailing_comma_is_no_host() -> None:
    assert from_flags(["--job_name=worker", "--worker_hosts=h1:1,,"]) == Wiring("worker", 0, {"worker": ("h1:1",)})


# --- what cannot be a wiring -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", ["one", "", "1.0", "0x1"])
def test_an_index_in_the_flags_that_is_no_number_is_an_error(index: str) -> None:
    with pytest.raises(WiringError, match=f"^--task_index must be a whole number, not '{index}'$"):
        from_flags(["--job_name=worker", f"--task_index={index}"])


@pytest.mark.parametrize("index", ["-1", "2"])
def test_an_index_that_the_cluster_does_not_have_is_an_error(index: str) -> None:
    with pytest.raises(WiringError, match=f"^worker/{index} is not in the cluster: it has 2 worker tasks$"):
        from_flags(["--job_name=worker", f"--task_index={index}", "--worker_hosts=h1:1,h2:1"])


def test_a_job_that_the_cluster_does_not_have_is_an_error() -> None:
    with pytest.raises(WiringError, match=r"^ps/0 is not in the cluster: it has 0 ps tasks$"):
        from_flags(["--job_name=ps", "--worker_hosts=h1:1"])


def test_a_negative_index_of_a_task_alone_is_an_error() -> None:
    with pytest.raises(WiringError, match=r"^the task index must be 0 or more, not -1$"):
        Wiring("worker", -1)


@pytest.mark.parametrize("index", ["0", True, 1.0, None, []])
def test_an_index_in_tf_config_that_is_no_number_is_an_error(index: object) -> None:
    config = json.dumps({"cluster": {"worker": ["h1:1"]}, "task": {"type": "worker", "index": index}})
    with pytest.raises(WiringError, match="must be a whole number"):
        from_tf_config(config)


@pytest.mark.parametrize(
    "text", ["{", "[]", "1", '"x"', '{"cluster": [1]}', '{"cluster": {"worker": 1}}', "[" * 100_000]
)
def test_an_invalid_tf_config_is_an_error(text: str) -> None:
    with pytest.raises(WiringError, match="TF_CONFIG is not valid"):
        from_tf_config(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "is not valid"),
        ("[" * 100_000, "is not valid"),
        ("[]", "must be a mapping"),
        ('{"job_name": 1}', "must be a mapping"),
        ('{"job": "--job_name"}', "renames 'job', which is none of job_name, task_index, ps_hosts, worker_hosts"),
    ],
    ids=["cut off", "deep", "a list", "a number", "backwards"],
)
def test_invalid_names_are_an_error(text: str, what: str) -> None:
    with pytest.raises(WiringError, match=f"TFPROV_FLAGS {what}"):
        from_names(text)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"cluster": {"worker": ["h1:1"]}}', '{"task": {}}', '{"task": {"index": 1}}']
)
def test_a_tf_config_that_names_no_task_is_a_single_machine(text: str) -> None:
    assert from_tf_config(text) is None


def test_the_flags_cannot_name_a_chief() -> None:
    with pytest.raises(WiringError, match="cannot name the job 'chief': use TF_CONFIG"):
        to_flags(Wiring("worker", 0, {**CLUSTER, "chief": ("h3:2222",)}))


# --- who a task is ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wiring", "chief", "address"),
    [
        (Wiring("worker", 0), True, None),
        (Wiring("worker", 0, CLUSTER), True, "h1:2222"),
        (Wiring("worker", 1, CLUSTER), False, "h2:2222"),
        (Wiring("ps", 0, CLUSTER), False, "h0:2222"),
        (Wiring("chief", 0, {**CLUSTER, "chief": ("h3:1",)}), True, "h3:1"),
        (Wiring("worker", 0, {**CLUSTER, "chief": ("h3:1",)}), False, "h1:2222"),
        (Wiring("evaluator", 0, CLUSTER), False, None),
    ],
)
def test_a_wiring_knows_its_chief_and_its_address(wiring: Wiring, chief: bool, address: str | None) -> None:
    assert wiring.is_chief is chief
    assert wiring.address == address


def test_the_names_of_flags_are_the_same_text_in_whatever_order_they_came() -> None:
    names = {"worker_hosts": "workers", "job_name": "role", "ps_hosts": "servers"}
    text = '{"job_name": "role", "ps_hosts": "servers", "worker_hosts": "workers"}'
    assert to_names(names) == to_names(dict(reversed(names.items()))) == text
    assert from_names(text) == names


def test_names_that_programs_read_are_stable() -> None:
    assert (FLAGS_VARIABLE, STRATEGY_VARIABLE) == ("TFPROV_FLAGS", "TFPROV_STRATEGY")
    assert FLAGS == ("job_name", "task_index", "ps_hosts", "worker_hosts")
    assert OUTSIDE == ("evaluator", "tensorboard", "serving", "notebook", "dispatcher", "data_worker")


NOT_JSON = "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
TEXT: Any = "1"


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: Wiring("worker", True), "the task index must be a whole number, not True"),
        (lambda: Wiring("worker", TEXT), "the task index must be a whole number, not '1'"),
        (lambda: Wiring("worker", -1), "the task index must be 0 or more, not -1"),
        (lambda: Wiring("worker", 2, CLUSTER), "worker/2 is not in the cluster: it has 2 worker tasks"),
        (lambda: to_flags(Wiring("chief", 0, {"chief": PS})), "the flags cannot name the job 'chief': use TF_CONFIG"),
        (lambda: from_names("[]"), "TFPROV_FLAGS must be a mapping of flags to names, not '[]'"),
        (lambda: from_names('{"a":1}'), "TFPROV_FLAGS must be a mapping of flags to names, not '{\"a\":1}'"),
        (lambda: from_names("{"), f"TFPROV_FLAGS is not valid: {NOT_JSON}"),
        (
            lambda: from_names('{"name": "x"}'),
            "TFPROV_FLAGS renames 'name', which is none of job_name, task_index, ps_hosts, worker_hosts",
        ),
        (lambda: from_flags(["--job_name=worker", "--task_index=x"]), "--task_index must be a whole number, not 'x'"),
        (lambda: from_tf_config("{"), f"TF_CONFIG is not valid: {NOT_JSON}"),
    ],
)
def test_an_invalid_wiring_is_reported_in_full(attempt: Callable[[], object], message: str) -> None:
    with pytest.raises(WiringError) as raised:
        attempt()
    assert str(raised.value) == message
