"""What a program or a shared library needs to be loaded: the dynamic section of an ELF file. Pure."""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

_LOAD, _DYNAMIC, _INTERP = 1, 2, 3
_NEEDED, _STRTAB, _RPATH, _RUNPATH = 1, 5, 15, 29


@dataclass(frozen=True)
class Dynamic:
    """The names of the libraries, the directories to look in first (with `$ORIGIN`), and the program's loader."""

    needed: tuple[str, ...]
    directories: tuple[str, ...]
    loader: str


@dataclass(frozen=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int


def read_dynamic(data: bytes) -> Dynamic | None:
    """Return what the ELF file with the content `data` needs; None when it is no ELF file, or a damaged one."""
    if not re.match(rb"\x7fELF[\x01\x02][\x01\x02]", data):
        return None
    order, wide = "<" if data[5] == 1 else ">", data[4] == 2
    try:
        segments = list(_segments(data, order, wide=wide))
        loader = next((_text(data, it.offset) for it in segments if it.kind == _INTERP), "")
        entries = [entry for it in segments if it.kind == _DYNAMIC for entry in _entries(data, it, order, wide=wide)]
        table = next((value for tag, value in entries if tag == _STRTAB), None)
        if table is None:
            return Dynamic((), (), loader)
        start = _file_offset(segments, table)
        names = {
            tag: tuple(_text(data, start + v) for t, v in entries if t == tag) for tag in (_NEEDED, _RPATH, _RUNPATH)
        }
    except (struct.error, ValueError, OverflowError):
        return None
    paths = tuple(path for text in (*names[_RPATH], *names[_RUNPATH]) for path in text.split(":") if path)
    return Dynamic(names[_NEEDED], paths, loader)


def _segments(data: bytes, order: str, *, wide: bool) -> Iterator[_Segment]:
    (table,) = struct.unpack_from(f"{order}{'Q' if wide else 'L'}", data, 32 if wide else 28)
    size, number = struct.unpack_from(f"{order}HH", data, 54 if wide else 42)
    for index in range(number):
        at = table + index * size
        if wide:
            kind, _, offset, address, _, length = struct.unpack_from(f"{order}LLQQQQ", data, at)
        else:
            kind, offset, address, _, length = struct.unpack_from(f"{order}LLLLL", data, at)
        yield _Segment(kind, offset, address, length)


def _entries(data: bytes, segment: _Segment, order: str, *, wide: bool) -> Iterator[tuple[int, int]]:
    form = struct.Struct(f"{order}{'qQ' if wide else 'lL'}")
    for at in range(segment.offset, segment.offset + segment.size, form.size):
        tag, value = form.unpack_from(data, at)
        if not tag:
            return
        yield tag, value


def _file_offset(segments: list[_Segment], address: int) -> int:
    for it in segments:
        if it.kind == _LOAD and it.address <= address < it.address + it.size:
            return address - it.address + it.offset
    raise ValueError  # an address outside of the file, which is damaged


def _text(data: bytes, offset: int) -> str:
    return data[offset : data.index(b"\0", offset)].decode("utf-8", errors="replace")
