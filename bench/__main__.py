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
    parser.add_argument("parts", nargs="*", metavar="|".join(PARTS), help="what to measure; all, by default")
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
    options = parser.parse_args()
    if wrong := set(options.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(wrong))}")
    if "scale" in (options.parts or PARTS) and len(set(options.hosts)) < 2:
        parser.error("--hosts: `scale` needs two numbers or more, its figures are what hosts beyond the fewest cost")
    signal.signal(signal.SIGTERM, _interrupted)
    print(f"at the start: {machine()}")
    figures = _figures(options, options.parts or PARTS)
    print(f"at the end: {machine()}\n\n{table(figures)}\n\n{_CPU}")


def _figures(options: argparse.Namespace, parts: "list[str] | tuple[str, ...]") -> list[Figure]:
    result: list[Figure] = []
    if "startup" in parts:
        result += startup.figures(options.rounds)
    if "inventory" in parts:
        result += inventory.figures(options.rounds)
    if "render" in parts:
        result += render.figures(options.rounds)
    if "tfrecord" in parts:
        result += tfrecord.figures(options.rounds, options.peers.resolve())
    if "spark" in parts:
        result += spark.figures(min(options.rounds, 5))
    if "scale" in parts:
        result += scale.figures(options.hosts, min(options.rounds, 3), options.peers.resolve(), options.picture)
    if "faults" in parts:
        result += scale_faults.figures(min(max(options.hosts), 256), options.latency / 1000)
    if "throughput" in parts:
        result += [*joining.figures(options.trainings), *throughput.figures(options.trainings)]
    return result + _with_engine(options, {"noop", "delivery", "from_hosts", "slow_link", "gather"}.intersection(parts))


def _with_engine(options: argparse.Namespace, parts: set[str]) -> list[Figure]:
    result: list[Figure] = []
    if parts and (reason := engine.unavailable()):
        say(f"not measured, {', '.join(sorted(parts))}: {reason}")
        return result
    if "gather" in parts:
        result += gather.figures(min(options.rounds, 5), small=options.small)
    if not parts - {"gather"}:
        return result
    with bed() as made:
        if "noop" in parts:
            result += noop.figures(made, options.peers.resolve(), options.rounds)
        if "delivery" in parts:
            made.lab.restore()
            result += delivery.figures(made, options.deliveries, small=options.small)
        if "from_hosts" in parts:
            made.lab.restore()
            result += from_hosts.figures(made, options.deliveries, 50 if options.small else 500)
        if "slow_link" in parts:
            made.lab.restore()
            result += slow_link.figures(made, options.deliveries, small=options.small)
    return result


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    """SIGTERM ends a measurement as Ctrl-C does: what was started is removed."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; everything is removed")
