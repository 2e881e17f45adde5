"""Jobs for Slurm whose tasks are a small program of the shell, which waits, fails, or ends as its mode says."""

from pathlib import Path

from tfprov.errors import Position
from tfprov.images.code import pack
from tfprov.render.render import render
from tfprov.render.target import find_target
from tfprov.settings.load import load

INVENTORY = """
all:
  vars:
    tfprov:
      cluster: law
      code: code
      command: [sh, program.sh]
      flags: {note: "it's $HOME `id` \\"q\\" é"}
      env: {GREETING: "$HOME 'x'", MODE: plain}
      checkpoints: {to: saved}
      restart: never
      stop_grace: 15
  children:
    ps: {hosts: {localhost: }}
    worker: {hosts: {localhost: }, vars: {tfprov: {tasks_per_host: 2}}}
"""
PROGRAM = """
trap 'echo "leaving, ps: $(ls "$TFPROV_CHECKPOINT_DIR"/ps-up 2>&1)"; rm -f "$mine"; kill $! 2>/dev/null; exit 143' TERM
echo "args: $*"; echo "greeting: $GREETING"; cat words.txt
[ "$TFPROV_TASK" != ps/0 ] || { mine=$TFPROV_CHECKPOINT_DIR/ps-up; : >"$mine"; }
until [ -e "$TFPROV_CHECKPOINT_DIR/ps-up" ]; do sleep 0.1; done
case $MODE-$TFPROV_TASK in
*-ps/0) ;;
plain-worker/0) sleep 1; exit 0 ;;
fails-worker/0) sleep 1; exit 5 ;;
early-worker/1 | plain-worker/1) exit 0 ;;
early-worker/0) until [ -e "$TFPROV_CHECKPOINT_DIR/early" ]; do sleep 0.1; done; exit 0 ;;
breaks-worker/0) : >"$TFPROV_CHECKPOINT_DIR/chief-up" ;;
breaks-worker/1) until [ -e "$TFPROV_CHECKPOINT_DIR/chief-up" ]; do sleep 0.1; done; exit 9 ;;
again-worker/1) [ -e "$TFPROV_CHECKPOINT_DIR/once" ] || { : >"$TFPROV_CHECKPOINT_DIR/once"; exit 9; }
    echo again; : >"$TFPROV_CHECKPOINT_DIR/again"; exit 0 ;;
again-worker/0) until [ -e "$TFPROV_CHECKPOINT_DIR/again" ]; do sleep 0.1; done; exit 0 ;;
esac
sleep 300 & wait $!
"""


SCRIPTS = {
    "processes": (INVENTORY, ()),
    "containers": (INVENTORY.replace("code: code", "code: code\n      image: {name: 'img:v1'}\n      gpus: 1"), ()),
    "all options": (
        INVENTORY.replace("restart: never", "data: {path: /data}"),
        (
            "cpus=2",
            "mem=3072",
            "gpus=1",
            "time=1-12:00:00",
            "partition=gpu,long",
            "account=me",
            "nodes=2",
            "port=20000",
            "checkpoints=/scratch/x",
        ),
    ),
}


def write_program(directory: Path) -> None:
    """Write the program below `directory`."""
    (directory / "code").mkdir()
    (directory / "code" / "program.sh").write_text(PROGRAM)
    (directory / "code" / "words.txt").write_text("from beside the program\n")


def script(inventory: str = INVENTORY, *settings: str) -> str:
    """Return the script for an inventory in the working directory."""
    Path("inventory.yml").write_text(inventory)
    _, roles = load(Path("inventory.yml"))
    codes = {(role.role, role.host): pack(Path("code"), Position("")) for role in roles if role.values.code}
    (text,) = render(roles, find_target("slurm"), settings, codes=codes).values()
    return text
