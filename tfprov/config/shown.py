"""What the user wrote, as it stands inside a message of one line."""

_LONGEST = 60


def shown(value: object) -> str:
    """Return `value` on one line, at most 60 characters long, and without anything that could steer a terminal."""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    short = text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in short)


def one_line(text: str) -> str:
    """Return a library's own words without their line breaks and quotes."""
    words = " ".join(text.split()).replace("'", "`").rstrip(".")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
