"""What a slow link and faulty hosts do to a verb over many simulated hosts."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Figure, Ran, environment, say
from bench.scale import controller, homes, tfprov
from tfprov.hosts import bounds

from .faults import Fault, Faults, spread
from .inventories import write_hosts
from .simulation import simulated

VERBS = (("plan",), ("up",), ("status",), ("down", "--discard"), ("check",))
KINDS = (Fault.NO_ENGINE, Fault.ERROR_500, Fault.NO_SSHD)
"""Faults that a host reports at once."""
LIMIT = bounds.QUERY_TIMEOUT + bounds.PING_TIMEOUT
"""Seconds until a hanging engine is reported."""
_SLACK = 5.0
"""Seconds by which two runs differ on a busy machine."""
_ERRORS = (1, 4)
"""Exit codes of a verb with a faulty host: 4 if one is not reached."""

_LINK = (
    "wall time, CPU of the controller and its memory; the link delays bytes by half of the latency in each direction"
)
_FAULTS = (
    "wall time of the whole command, beside that of the same command without a faulty host, and the hosts that it names"
)


def figures(size: int, latency: float) -> list[Figure]:
    """Measure the verbs with a latency of some seconds, and `plan` with faulty hosts."""
    with tempfile.TemporaryDirectory() as code:
        bed = _Bed(size, Path(code))
        bed.verbs(0.0, {}, (("plan",),))  # compiles what there is
        return [*_with_latency(bed, latency), *_with_faults(bed)]


@dataclass(frozen=True)
class _Bed:
    """Runs verbs on `size` hosts; `byte_code` is where compiled modules are kept."""

    size: int
    byte_code: Path

    def verbs(
        self, latency: float, faults: Faults, verbs: Sequence[Sequence[str]] = VERBS, codes: Sequence[int] = (0,)
    ) -> Mapping[str, Ran]:
        """Run verbs one after the other, each expected to exit with one of `codes`."""
        say(f"{self.size} simulated hosts, {latency * 1000:.0f} ms, {len(faults)} faulty")
        with tempfile.TemporaryDirectory() as name, simulated(Path(name), self.size, latency, faults) as simulation:
            hosts = write_hosts(Path(name) / "hosts", simulation, self.size)
            env = environment(homes(name), self.byte_code)
            return {verb[0]: controller(tfprov(verb, hosts), env, hosts.peers, codes) for verb in verbs}


def _with_latency(bed: _Bed, latency: float) -> list[Figure]:
    near, far = (bed.verbs(it, {}) for it in (0.0, latency))
    return [
        Figure(
            f"{verb}, {bed.size} hosts, {latency * 1000:.0f} ms",
            _shown(far[verb]),
            f"0 ms: {_shown(near[verb])}",
            far[verb].seconds / near[verb].seconds,
            includes=_LINK,
        )
        for verb in near
    ]


def _with_faults(bed: _Bed) -> list[Figure]:
    size, healthy = bed.size, bed.verbs(0.0, {}, (("plan",),))["plan"]
    many = spread(size, (Fault.HANGS,) * max(1, size // 8))
    cases: dict[str, tuple[Faults, float]] = {
        "3 faulty": (spread(size, KINDS), 0.0),
        "3 faulty, 1 of them hanging": (spread(size, (Fault.HANGS, *KINDS[1:])), LIMIT),
        f"{len(many)} hanging": (many, 2 * LIMIT),
    }
    return [_fault_figure(bed, name, faults, healthy, limit) for name, (faults, limit) in cases.items()]


def _fault_figure(bed: _Bed, name: str, faults: Faults, healthy: Ran, limit: float) -> Figure:
    ran = bed.verbs(0.0, faults, (("plan",),), codes=_ERRORS)["plan"]
    named = {line.split(":")[1].strip() for line in ran.output.splitlines() if line.startswith("error: ")}
    is_exact = named == set(faults)
    return Figure(
        f"plan, {bed.size} hosts, {name}",
        f"{ran.seconds:.1f} s, names {'exactly' if is_exact else 'not exactly'} these {len(faults)}",
        f"without: {healthy.seconds:.1f} s",
        None,
        f"<= {limit + _SLACK:.0f} s more",
        is_exact and ran.seconds <= healthy.seconds + limit + _SLACK,
        includes=_FAULTS,
    )


def _shown(ran: Ran) -> str:
    return f"{ran.seconds:.1f} s, {ran.cpu:.1f} s, {ran.peak / 2**20:.0f} MB"
