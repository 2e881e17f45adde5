"""Options, quoting, templates and files of all targets, and the command line."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.command_output import SMALLEST, run_command, write_files
from tests.support.examples import examples
from tests.support.kubernetes_objects import files_of, object_named, objects_of
from tests.support.paths import ROOT
from tests.support.render_options import filled
from tfprov.cli.render import render_command
from tfprov.errors import InvalidInput, Usage
from tfprov.render import output
from tfprov.render.kubernetes.wiring import literal
from tfprov.render.options import Option, boolean, choice, image, integer, list_of, pairs_of, parse_settings, text
from tfprov.render.quoting import SHIPPED, as_block, as_json, as_lines, render_templates
from tfprov.render.render import options_of
from tfprov.render.target import TARGETS, find_target

SET = ("--set", "image=img:v1", "--set", "code=image")


# -- options ----------------------------------------------------------------------------------------------------------

OPTIONS = {
    option.name: option
    for option in (
        Option("kind", "Job", "what runs a task", choice("Job", "Deployment")),
        Option("user", 1000, "the user id", integer(1, 9999)),
        Option("on", True, "whether", boolean),
        Option("secrets", (), "the Secrets", list_of(text)),
        Option("nodes", {}, "the labels", pairs_of(text, text)),
        Option("image", "", "the image", image),
    )
}


def test_every_option_has_its_default_and_its_type() -> None:
    assert parse_settings("x", OPTIONS, ()) == {
        "kind": "Job",
        "user": 1000,
        "on": True,
        "secrets": (),
        "nodes": {},
        "image": "",
    }
    settings = ("kind=Deployment", "user=7", "on=false", "secrets=a, b", "nodes=a=b=c,d=e", "image=r.example.com/a:1")
    assert parse_settings("x", OPTIONS, settings) == {
        "kind": "Deployment",
        "user": 7,
        "on": False,
        "secrets": ("a", "b"),
        "nodes": {"a": "b=c", "d": "e"},
        "image": "r.example.com/a:1",
    }


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("kind=Pod", "`--set kind` must be `Job` or `Deployment`, not `Pod`; what runs a task"),
        ("user=0", "`--set user` must be a whole number from 1 to 9999, not `0`; the user id"),
        ("user=1e3", "`--set user` must be a whole number from 1 to 9999, not `1e3`; the user id"),
        ("on=yes", "`--set on` must be `true` or `false`, not `yes`; whether"),
        ("nodes=a", "`--set nodes` must be `name=value`, or several separated by commas, not `a`; the labels"),
        ("secrets=a,,b", "`--set secrets` must be one line of text, and not empty, not `a,,b`; the Secrets"),
        ("usr=1", "`x` has no option `usr`; did you mean `user`?"),
        ("colour=1", "`x` has no option `colour`; it has kind, user, on, secrets, nodes, image"),
        ("user", "`--set user` has no value; write `--set name=value`"),
    ],
)
def test_an_invalid_option_is_refused_with_a_description_of_a_valid_one(setting: str, message: str) -> None:
    with pytest.raises(Usage) as caught:
        parse_settings("x", OPTIONS, [setting])
    assert str(caught.value) == message


@pytest.mark.parametrize("value", ["", "UPPER:case", "a b", "a:b:c:", "-x"])
def test_an_image_that_no_engine_could_pull_is_refused(value: str) -> None:
    with pytest.raises(Usage, match="`--set image` must be") as caught:
        parse_settings("x", OPTIONS, [f"image={value}"])
    assert str(caught.value).count(", not `") == 1


LARGEST = 2**31 - 1
BOUNDS = {
    "kubernetes": {"user": (1, LARGEST), "ttl": (0, LARGEST)},
    "kubeflow-tfjob": {"deadline": (0, LARGEST)},
    "kubeflow-trainer": {"restarts": (0, 1000)},
    "marathon": {"port": (1, 65535), "cpus": (1, 1024), "mem": (32, 16_777_216)},
    "swarm": {"publish": (1, 65535), "publish_serving": (1, 65535), "publish_notebook": (1, 65535)},
    "slurm": {
        "nodes": (1, 65535), "cpus": (1, 1024), "mem": (32, 16_777_216), "gpus": (1, 1024), "port": (1024, 65000),
    },
}  # fmt: skip


@pytest.mark.parametrize("target", BOUNDS)
def test_a_number_of_a_target_has_bounds(target: str) -> None:
    options = options_of(find_target(target))
    for name, (least, most) in BOUNDS[target].items():
        assert [options[name].read(str(number)) for number in (least, most)] == [least, most]
        for number in (least - 1, most + 1):
            with pytest.raises(ValueError, match=rf"^a whole number from {least} to {most}\Z"):
                options[name].read(str(number))


PATHS = ["/a", "/a b/c"], ["", "a", "/", "/a/", "/a\tb"], "an absolute path"
SHARED_PATHS = ["/a", "/a b/c"], ["", "a", "/", "/a/", "/a:b", "/a,b"], "an absolute path, without `:` and `,`"
SLURM_NAMES = ["a", "gpu,long_1.x-2"], ["", "-a", "a b"], "a name, or several separated by commas"
OBJECTS = ["a", "a.b-1"], ["", "A", "-a", "a..b", "a_b"], "a name of lower-case letters, digits, `-` and `.`"
PLACES = ["any", "hosts"], ["", "all"], "`any` or `hosts`"
MODES = ["ReadWriteOnce", "ReadWriteMany"]
FORMS = {
    ("compose", "publish"): (["127.0.0.1"], ["::1", "1.2.3", "1.2.3.4567"], "an IPv4 address, such as 127.0.0.1"),
    ("marathon", "dns"): (["a", "marathon.mesos"], ["", "A", "a..b", "a" * 64], "a domain, such as marathon.mesos"),
    ("marathon", "checkpoints"): PATHS,
    ("marathon", "place"): PLACES,
    ("marathon", "reserve"): (["true", "false"], ["yes"], "`true` or `false`"),
    ("swarm", "place"): PLACES,
    ("swarm", "node"): (["a", "A.b-1"], ["", "-a", "a-", "a b"], "the host name of a node"),
    ("swarm", "gpu_resource"): (["NVIDIA-GPU", "a_1"], ["", "a b", "a" * 64], "letters, digits, `_` and `-`"),
    ("slurm", "time"): (
        ["30", "12:30", "12:30:00", "2-12", "2-12:30:00"], ["", "1:000", "1-", "a", "1:2:3:4"],
        "minutes, `hours:minutes:seconds` or `days-hours`",
    ),
    ("slurm", "partition"): SLURM_NAMES,
    ("slurm", "account"): SLURM_NAMES,
    ("slurm", "checkpoints"): SHARED_PATHS,
    ("slurm", "sif"): SHARED_PATHS,
    ("slurm", "container"): (["apptainer", "none"], ["docker"], "`apptainer` or `none`"),
    ("spark-submit", "checkpoints"): PATHS,
    ("spark-submit", "trusted_network"): (["true", "false"], ["yes"], "`true` or `false`"),
    ("spark-submit", "gpu_resource"): (["gpu", "gpu-2"], ["", "Gpu", "2gpu"], "a name"),
    ("kubernetes", "kind"): (["Job", "StatefulSet", "Deployment"], ["Pod"], "`Job` or `StatefulSet` or `Deployment`"),
    ("kubernetes", "namespace"): (
        ["a", "a-1"], ["", "A", "a.b", "a" * 64], "lower-case letters, digits and `-`, at most 63",
    ),
    ("kubernetes", "storage"): (
        ["none", "10Gi", "1.125Ti", "999999999"], ["", "0Gi", "10gi", "1.2345Gi"], "a size such as `10Gi`, or `none`",
    ),
    ("kubernetes", "access"): (MODES, ["auto"], "`ReadWriteOnce` or `ReadWriteMany`"),
    ("kubernetes", "data_path"): (["/a", "/a b/"], ["", "a", "/a\nb"], "an absolute path"),
    **{
        ("kubernetes", name): OBJECTS
        for name in ("storage_class", "claim", "data_claim", "credential_secret", "env_secret", "priority_class")
    },
    ("kubernetes", "credential_key"): (["a", "_a-b.c", "a" * 253], ["", ".a", "a/b", "a" * 254], "the key of a Secret"),
    ("kubernetes", "network_policy"): (["true", "false"], ["yes"], "`true` or `false`"),
    ("kubernetes", "gpu_resource"): (
        ["gpu", "nvidia.com/gpu"], ["", "/gpu", "a/b/c", "-gpu"], "a key such as `example.com/pool`",
    ),
    ("kubeflow-tfjob", "access"): (["auto", *MODES], ["any"], "`auto` or `ReadWriteOnce` or `ReadWriteMany`"),
    ("kubeflow-tfjob", "clean"): (["Running", "All", "None"], ["none"], "`Running` or `All` or `None`"),
    ("kubeflow-tfjob", "success"): (["", "AllWorkers"], ["Chief"], "`` or `AllWorkers`"),
    ("jobset", "await_evaluator"): (["true", "false"], ["yes"], "`true` or `false`"),
}  # fmt: skip


@pytest.mark.parametrize(("target", "name"), FORMS)
def test_a_text_of_a_target_has_a_form(target: str, name: str) -> None:
    accepted, refused, form = FORMS[target, name]
    read = options_of(find_target(target))[name].read
    assert [str(read(value)).lower() for value in accepted] == [value.lower() for value in accepted]
    for value in refused:
        with pytest.raises(ValueError, match=rf"^{re.escape(form)}\Z"):
            read(value)


# -- quoting ----------------------------------------------------------------------------------------------------------

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(_VALUES)
def test_a_quoted_value_survives_a_round_trip(value: object) -> None:
    assert yaml.safe_load(as_json(value)) == value
    assert yaml.safe_load(f"a:\n  {as_block({'b': value}, 2)}\nc: 1") == {"a": {"b": value}, "c": 1}


@given(_TEXTS)
@example(" ")
@example("x  \ny")
@example("\n")
def test_a_multi_line_text_survives_a_round_trip(value: str) -> None:
    assert yaml.safe_load(f"a: {as_lines(value, 2)}\nb: 1") == {"a": value, "b": 1}
    lines = f"def x():\n    return 1\n\n{value}\n"
    assert yaml.safe_load(f"a: {as_lines(lines, 2)}\nb: 1") == {"a": lines, "b": 1}


@pytest.mark.parametrize("word", ["$(HOME)", "$$", "5$", "$$(X)", "plain"])
def test_kubernetes_expands_no_dollar_of_a_user(word: str) -> None:
    assert literal(word).replace("$$", "$") == word
    assert "$(" not in literal(word).replace("$$", "")


# -- templates --------------------------------------------------------------------------------------------------------


def test_a_users_template_is_used(tmp_path: Path) -> None:
    assert filled(tmp_path, "{% for x in xs %}\n- {{ x | json }} # {{ x | remark }}\n{% endfor %}\n", xs=["a\nb"]) == (
        '- "a\\nb" # a b\n'
    )
    assert filled(tmp_path, "{{ x | json }}", x="grün") == '"grün"'


@pytest.mark.parametrize(
    ("template", "line", "message"),
    [
        ("a\n{{ nothing | json }}", 2, "`nothing` is undefined"),
        ("a\nb\n{{ x }}", 3, "a text leaves the template unquoted"),
        ("{{ x ~ 'y' }}", 1, "a text leaves the template unquoted"),
        ("{{ [x] }}", 1, "a list leaves the template unquoted"),
        ("a\n{% for %}", 2, "Expected"),
        ("{{ x | jsom }}", 1, "No filter named"),
        ("{{ x.y.z | json }}", 1, "has no attribute `y`"),
        ("a\n{% include 'none.j2' %}", 2, "there is no template `none.j2`"),
    ],
    ids=["undefined", "text", "joined", "list", "syntax", "filter", "attribute", "include"],
)
def test_an_error_in_a_template_names_its_line(tmp_path: Path, template: str, line: int, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        filled(tmp_path, template, x="text")
    (problem,) = caught.value.problems
    assert str(problem.at) == f"{tmp_path / 'kubernetes.yml.j2'}:{line}"
    assert message in problem.what
    assert problem.fix == "correct the template"


def test_a_template_that_renders_invalid_yaml_writes_no_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files({f"{tmp_path}/i.yml": SMALLEST, f"{tmp_path}/t/kubernetes.yml.j2": "a: {\n"})
    out = tmp_path / "out.yml"
    out.write_text("before")
    argv = ("render", "kubernetes", "-i", f"{tmp_path}/i.yml", *SET, "--template", f"{tmp_path}/t", "-o", str(out))
    result = run_command(capsys, *argv)
    assert (result.code, out.read_text()) == (2, "before")
    assert "kubernetes.yml is not YAML" in result.lines[0]


@pytest.mark.parametrize("content", ["nothing", "others"])
def test_a_directory_without_a_template_is_refused(content: str, tmp_path: Path) -> None:
    if content == "others":
        (tmp_path / "kubernets.yml.j2").write_text("")
    with pytest.raises(Usage, match="`--template`: "):
        render_templates({"out": "kubernetes.yml.j2"}, {}, tmp_path if content == "others" else tmp_path / "none")


def test_every_shipped_template_quotes_its_values() -> None:
    names = {name for target in TARGETS for name in find_target(target).templates.values()}
    assert names <= {path.name for path in SHIPPED.iterdir()}
    with pytest.raises(InvalidInput):
        render_templates(dict.fromkeys(names, "kubernetes.yml.j2"), {"name": "x"})


# -- parsing rendered text --------------------------------------------------------------------------------------------


@examples(40)
@given(st.lists(st.dictionaries(_TEXTS, _TEXTS, min_size=1, max_size=3), min_size=1, max_size=5))
def test_documents_are_parsed_as_yaml_does(documents: list[dict[str, str]]) -> None:
    rendered = "\n---\n".join(str(as_block(document, 0)) for document in documents)
    parsed = []
    for shape, texts in output.objects("x", rendered):
        parsed.append({output.text_of(key, texts): output.text_of(value, texts) for key, value in shape.items()})
    assert parsed == documents == output.documents("x", rendered)


@pytest.mark.parametrize("written", ["'it is \"b\"'", '|\n  it is "b"'])
def test_quotes_within_a_text_do_not_begin_another(written: str) -> None:
    assert list(output.objects("x", f"a: {written}")) == [({"a": 'it is "b"'}, [])]


def test_a_yaml_escape_that_json_does_not_have_is_read() -> None:
    ((shape, texts),) = output.objects("x", 'a: "\\x1A1"')
    assert output.text_of(shape["a"], texts) == "\x1a1"


@examples(60)
@given(st.lists(st.tuples(_TEXTS, st.integers(0, 2), st.lists(_TEXTS, min_size=1, max_size=3)), max_size=6), _TEXTS)
def test_list_entries_that_differ_only_in_texts_are_parsed_once(
    entries: list[tuple[str, int, list[str]]], after: str
) -> None:
    lines = ["list:"]
    for name, number, inner in entries:
        lines += [f"  - name: {as_json(name)}", f"    number: {number}", "    inner:"]
        lines += [f"    - {as_json(value)}" for value in inner]
    rendered = "\n".join([*lines, f"after: {as_json(after)}"])
    ((shape, texts),) = output.objects("x", rendered)
    assert output.text_of(shape["after"], texts) == after
    kinds = [(number, len(inner)) for _, number, inner in entries]
    distinct = [kind for place, kind in enumerate(kinds) if place == 0 or kinds[place - 1] != kind]
    assert [(value["number"], len(value["inner"])) for value in shape["list"] or ()] == distinct
    assert output.documents("x", rendered)[0]["after"] == after


_BROKEN = ['a: "x', "a: [", "a: 'it\"s' \"", "\ta: 1", 'a: "\\q"', 'a: "x" "y"', 'a:\n  - "x"\n  - "x" "y"\n']
_BROKEN += ['a:\n  - b: "x"\n  - b: "x"\n   c: "x"\n', 'a:\n  - b: "x"\n    c: "y"\n  - b: "x"\n    c: "y\n']


@pytest.mark.parametrize("broken", _BROKEN)
def test_invalid_yaml_is_never_accepted(broken: str) -> None:
    with pytest.raises(ValueError, match="x is not YAML"):
        list(output.objects("x", f"a: 1\n---\n{broken}\n---\nb: 2\n"))


# -- the command line ---------------------------------------------------------------------------------------------------


@pytest.fixture
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_files({"inventory.yml": SMALLEST})
    return tmp_path


def test_rendered_text_goes_to_stdout_or_to_a_file(working_directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed = run_command(capsys, "render", "kubernetes", *SET)
    assert printed.code == 0
    assert run_command(capsys, "render", "kubernetes", *SET, "-o", "-").out == printed.out
    assert run_command(capsys, "render", "kubernetes", *SET, "-o", "one.yml").lines == ("wrote one.yml",)
    assert run_command(capsys, "render", "kubernetes", *SET, "-o", ".").lines == ("wrote kubernetes.yml",)
    assert (
        (working_directory / "one.yml").read_text() == (working_directory / "kubernetes.yml").read_text() == printed.out
    )
    assert sorted(path.name for path in working_directory.iterdir()) == ["inventory.yml", "kubernetes.yml", "one.yml"]


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (("kubernete",), "error: no target `kubernete`; did you mean `kubernetes`?"),
        (("mesos",), f"error: no target `mesos`; it is one of {', '.join(TARGETS)}"),
        ((), f"error: `tfprov render` needs a target; it is one of {', '.join(TARGETS)}"),
        (("kubernetes", "--set", "imag=x"), "error: `kubernetes` has no option `imag`; did you mean `image`?"),
        (("kubernetes", *SET, "-o", "inventory.yml/x"), "error: inventory.yml/x cannot be written: "),
        (
            ("kubernetes", *SET, "-o", "./inventory.yml"),
            "error: inventory.yml is the inventory, and would be replaced; ",
        ),
        (
            ("kubernetes", *SET, "--set", "claim=a", "--set", "storage_class=b"),
            "error: `--set claim` and `--set storage",
        ),
        (("kubernetes", *SET, "--set", "credential_key=../x"), "error: `--set credential_key` must be the key of a S"),
        (("kubernetes",), "inventory.yml:3:13: error: no `image`: kubernetes has to pull it; use `--set image="),
    ],
    ids=["misspelt", "unknown", "none", "option", "no-place", "inventory", "two-things", "path-as-key", "no-image"],
)
@pytest.mark.usefixtures("working_directory")
def test_an_error_is_reported_on_one_line(argv: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_command(capsys, "render", *argv)
    assert result.code == 2
    assert len(result.lines) == 1
    assert result.lines[0].startswith(line)
    assert result.out == ""


def test_errors_of_options_and_of_the_inventory_are_reported_at_once(
    working_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (working_directory / "inventory.yml").write_text(SMALLEST.replace("command:", "comand:"))
    result = run_command(capsys, "render", "kubernetes", "--set", "imag=x", "--set", "user=0")
    assert (result.code, result.out) == (2, "")
    assert [line.split(";")[0] for line in result.lines[:2]] == [
        "error: `kubernetes` has no option `imag`",
        "error: `--set user` must be a whole number from 1 to 2147483647, not `0`",
    ]
    assert result.lines[2].startswith("inventory.yml:")


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_lists_what_can_be_set(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_command(capsys, "render", target, "--list")
    assert result.code == 0
    assert all(f"  {name} " in result.out for name in options_of(find_target(target)))


def test_all_targets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_command(capsys, "render", "--list")
    assert [line.split()[0] for line in result.out.splitlines()] == list(TARGETS)
    assert render_command.name == "render"


@pytest.mark.parametrize("target", TARGETS)
def test_the_page_about_rendering_has_every_target_and_option(target: str) -> None:
    page = (ROOT / "docs" / "render.md").read_text()
    assert f"| `{target}` |" in page or f"`{target}`" in page
    missing = [name for name in options_of(find_target(target)) if not re.search(rf"[`=\s]{name}[`=\s,]", page)]
    assert missing == []


def test_quotes_in_values_are_escaped() -> None:
    nasty = """a "b' #: {x} [y] \\\\ $(z) %s {{"""
    text = SMALLEST.replace("[python, linear.py]", "[python, !unsafe '" + nasty.replace("'", "''") + "']")
    job = object_named(objects_of(text, "kubernetes", "image=img:v1"), "Job", "linear-worker-0")
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[1] == """a "b' #: {x} [y] \\\\ $$(z) %s {{"""


def test_rendering_is_the_same_every_time() -> None:
    assert files_of(SMALLEST, "jobset", "image=img:v1") == files_of(SMALLEST, "jobset", "image=img:v1")


# -- data that tfprov's own hosts fetch ---------------------------------------------------------------------------------

FETCHED = """\
all:
  vars:
    tfprov:
      cluster: linear
      image: {name: train}
      command: [python, train.py]
      flags: {data_dir: "{{ data_dir }}"}
      data:
        fetch: [{url: "https://data.example.com/train", sha256: SUM}]
  children:
    worker: {hosts: {localhost: }}
""".replace("SUM", "a1" * 32)


@pytest.mark.parametrize("target", TARGETS)
def test_data_fetch_is_refused_at_its_line(target: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        files_of(FETCHED, target)
    messages = [str(problem) for problem in raised.value.problems]
    assert any(
        line.startswith("inventory.yml:9:") and "`data.fetch` works on tfprov's own hosts only" in line
        for line in messages
    ), messages


def test_kubernetes_mounts_fetched_data_from_a_claim() -> None:
    (text,) = files_of(FETCHED, "kubernetes", "data_claim=digits").values()
    assert '"--data_dir=/data"' in text
    assert "claimName" in text


LAYOUT = """\
"yes": 1
    a.b/c-d_: []
    "9": {}
    "x y": null
    "Null": true
    fits: [XX33, YY31]
    longer:
      - XX33
      - YY32
    text: ZZ90
    map:
      fits: {"k": VV27, "l": VV27}
      longer:
        k: VV27
        l: VV28
      one: {"k": VV90}
    list:
      - [XX33, YY31]
      - - XX33
        - YY32
      - k: VV27
        l: {"n": VV28}
      - k: VV90
      - "é\\u2028\\u007f\""""


def test_the_whole_layout_of_a_block() -> None:
    x, y, v, z = ("x" * 33, "y" * 31, "v" * 27, "z" * 90)
    value = {
        "yes": 1, "a.b/c-d_": [], "9": {}, "x y": None, "Null": True, "fits": [x, y], "longer": (x, f"{y}y"), "text": z,
        "map": {"fits": {"k": v, "l": v}, "longer": {"k": v, "l": f"{v}v"}, "one": {"k": "v" * 90}},
        "list": [[x, y], [x, f"{y}y"], {"k": v, "l": {"n": f"{v}v"}}, {"k": "v" * 90}, "é\u2028\x7f"],
    }  # fmt: skip
    assert as_block(value, 4) == re.sub(r"([X-ZV])\1([0-9]+)", lambda it: f'"{it[1].lower() * int(it[2])}"', LAYOUT)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\nb\n", "|\n  a\n  b"), ("a\n\n b\n", "|\n  a\n\n   b"), ("a", '"a"'), ("", '""'), ("\n", '"\\n"'),
        ("a\n\n", '"a\\n\\n"'),
        (" a\n", '" a\\n"'), ("a \nb\n", '"a \\nb\\n"'), ("é\n", '"é\\n"'), ("a\tb\n", '"a\\tb\\n"'),
    ],
)  # fmt: skip
def test_a_text_is_a_literal_block_only_if_it_stays_the_same(text: str, lines: str) -> None:
    assert as_lines(text, 2) == lines
