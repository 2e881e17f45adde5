"""What other tools write in their own units: sizes, times, numbers of CPUs."""

import re
from decimal import Decimal

from tfprov.importing.model import Given, Notes, Said

_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([EPTGMk]i?|Ki|m)?")
_POWERS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_DOCKER = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([bkmgtBKMGT])?(?:i?[bB])?")
_DURATION = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,8})m)?(?:([0-9]{1,8})(?:\.[0-9]+)?s)?")


def quantity(said: Said) -> Decimal | None:
    """Return a number in Kubernetes' form: `500m`, `4Gi`."""
    found = _QUANTITY.fullmatch(said.text)
    if found is None:
        return None
    unit = found[2] or ""
    if unit == "m":
        return Decimal(found[1]) / 1000
    base = 1024 if unit.endswith("i") else 1000
    return Decimal(found[1]) * (base ** _POWERS[unit[0]] if unit else 1)


def kubernetes_memory(said: Said, notes: Notes) -> Given | None:
    """Return Kubernetes' memory as an inventory has it."""
    amount = quantity(said)
    return _memory(said, notes, None if amount is None else int(amount))


def docker_memory(said: Said, notes: Notes) -> Given | None:
    """Return Docker's memory as an inventory has it."""
    found = _DOCKER.fullmatch(said.text)
    power = "bkmgt".index((found[2] or "b").lower()) if found else 0
    return _memory(said, notes, int(Decimal(found[1]) * 1024**power) if found else None)


def _memory(said: Said, notes: Notes, amount: int | None) -> Given | None:
    if amount is None:
        notes.left(said.text, said.at, "it is no amount of memory")
        return None
    for power, unit in ((3, "g"), (2, "m"), (1, "k")):
        if amount and amount % 1024**power == 0:
            return Given(f"{amount // 1024**power}{unit}", said.at)
    return Given(f"{amount}b", said.at)


def cpus(said: Said, notes: Notes) -> Given | None:
    """Return a number of CPUs."""
    amount = quantity(said)
    if amount is None:
        notes.left(said.text, said.at, "it is no number of CPUs")
        return None
    return Given(int(amount) if amount == int(amount) else float(amount), said.at)


def seconds(said: Said, notes: Notes) -> Given | None:
    """Return a time such as `1m30s`, or a bare number of seconds."""
    if said.text.isdecimal() and len(said.text) < 9:
        return Given(int(said.text), said.at)
    found = _DURATION.fullmatch(said.text)
    if found is None or not any(found.groups()):
        notes.left(said.text, said.at, "it is no time in whole seconds")
        return None
    hours, minutes, rest = (int(part or 0) for part in found.groups())
    return Given(hours * 3600 + minutes * 60 + rest, said.at)
