"""The section `deliver`: how images get to the hosts."""

from typing import Literal

from pydantic import Field

from tfprov.model.sections import StrictModel


class Deliver(StrictModel):
    """How images get to the hosts."""

    from_hosts: Literal["never", "auto"] = Field(
        "never",
        description="Where hosts get the layers of an image from: `never`, all from the controller; `auto`, a layer leaves "
        "the controller once, and hosts that have it send it on to the others: over TLS with a certificate of this run, "
        "from a relay at a free port of the host's `address`. Hosts that no other reaches get theirs from the controller.",
        examples=["auto"],
    )
    compress: Literal["auto", "always", "never"] = Field(
        "auto",
        description="Whether layers are compressed with gzip on their way to a host: `auto`, where more than 16 MiB are "
        "missing and the link, which is measured for 0.3 s, is slower than 25 MB/s; `always`; `never`. Layers that do not "
        "shrink stay as they are. Compressed layers are kept beside the image on the controller.",
        examples=["always"],
    )
