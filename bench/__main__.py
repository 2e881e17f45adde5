"""All figures in one table, peers beside tfprov on the same hosts.

    python -m bench [--peers DIRECTORY] [--small] [--rounds N] [startup] [inventory] [render] [throughput] [noop] [delivery]
                    [from_hosts] [slow_link] [tfrecord] [spark] [scale] [faults] [gather]

The machine's noise is met by measuring contenders in turn and telling medians; nothing here fails because of a time.
"""

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

from tests.support import engine

from . import (
    delivery,
    from_hosts,
    gather,
    inventory,
    joining,
    noop,
    render,
    scale,
    slow_link,
    spark,
    startup,
    tfrecord,
    throughput,
)
from .bed import bed
from .measure import Figure, machine, say, table
from .simulator import scale_faults

_CPU = "CPU: the same ratio of CPU time, of controller and hosts together; other work on the machine disturbs it less."
PARTS = (
    *("startup", "inventory", "render", "throughput", "noop", "delivery", "from_hosts", "tfrecord", "spark", "scale"),
    *("faults", "gather", "slow_link"),
)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Figures, side by side with peers.")
    parser.add_argument("parts", nargs="*", metavar="|".join(PARTS), help="what to measure; all, when nothing is said")
    parser.add_argument(
        "--peers", type=Path, default=Path("build/peers/bin"), help="where the peers and their Python are"
    )
    parser.add_argument(
        "--small", action="store_true", help="deliver an image of a few MB: a look whether it all works"
    )
    parser.add_argument("--rounds", type=int, default=7, help="of the cheap figures; %(default)s")
    parser.add_argument("--deliveries", type=int, default=2, help="rounds of first deliveries; %(default)s")
    parser.add_argument("--trainings", type=int, default=3, help="rounds of each training; %(default)s")
    parser.add_argument("--hosts", type=int, nargs="+", default=scale.SIZES, help="of `scale`; %(default)s")
    parser.add_argument("--latency", type=float, default=50, help="milliseconds, of `faults`; %(default)s")
    parser.add_argument("--picture", type=Path, help="an SVG file for the curves of `scale`")
    given = parser.parse_args()
    if wrong := set(given.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(wrong))}")
    signal.signal(signal.SIGTERM, _interrupted)
    print(f"at the start: {machine()}")
    figures = _figures(given, given.parts or PARTS)
    print(f"at the end: {machine()}\n\n{table(figures)}\n\n{_CPU}")


def _figures(given: argparse.Namespace, parts: "list[str] | tuple[str, ...]") -> list[Figure]:
    found: list[Figure] = []
    if "startup" in parts:
        found += startup.figures(given.rounds)
    if "inventory" in parts:
        found += inventory.figures(given.rounds)
    if "render" in parts:
        found += render.figures(given.rounds)
    if "tfrecord" in parts:
        found += tfrecord.figures(given.rounds, given.peers.resolve())
    if "spark" in parts:
        found += spark.figures(min(given.rounds, 5))
    if "scale" in parts:
        found += scale.figures(given.hosts, min(given.rounds, 3), given.peers.resolve(), given.picture)
    if "faults" in parts:
        found += scale_faults.figures(min(max(given.hosts), 256), given.latency / 1000)
    if "throughput" in parts:
        found += [*joining.figures(given.trainings), *throughput.figures(given.trainings)]
    return found + _with_engine(given, {"noop", "delivery", "from_hosts", "slow_link", "gather"}.intersection(parts))


def _with_engine(given: argparse.Namespace, parts: set[str]) -> list[Figure]:
    found: list[Figure] = []
    if parts and (reason := engine.unavailable()):
        say(f"not measured, {', '.join(sorted(parts))}: {reason}")
        return found
    if "gather" in parts:
        found += gather.figures(min(given.rounds, 5), small=given.small)
    if not parts - {"gather"}:
        return found
    with bed() as made:
        if "noop" in parts:
            found += noop.figures(made, given.peers.resolve(), given.rounds)
        if "delivery" in parts:
            made.lab.restore()
            found += delivery.figures(made, given.deliveries, small=given.small)
        if "from_hosts" in parts:
            made.lab.restore()
            found += from_hosts.figures(made, given.deliveries, 50 if given.small else 500)
        if "slow_link" in parts:
            made.lab.restore()
            found += slow_link.figures(made, given.deliveries, small=given.small)
    return found


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    """SIGTERM ends a measurement as Ctrl-C does: what was started is removed."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; everything is removed")
