"""S3 with a time limit for every request, through s3fs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import s3fs
from fsspec.asyn import sync_wrapper

_CONNECT_TIMEOUT = 10
"""Seconds until a server that cannot be reached counts as lost."""
_LIMITS_OF_REQUEST = 5
"""How many limits without an answer a whole request may take, with the client's retries and the sending of a part."""


class BoundedS3(s3fs.S3FileSystem):  # type: ignore[misc]
    """The file system of s3fs, whose requests end after `limit` seconds, also those that the server does not read.

    The client's own limit is for the answer. It does not begin while a server lets an upload wait for `100 Continue`.
    """

    cachable = False

    def __init__(self, limit: float, **options: Any) -> None:
        super().__init__(**options)
        self.limit = limit

    async def _call_s3(self, method: str, *arguments: Any, **options: Any) -> Any:
        return await asyncio.wait_for(super()._call_s3(method, *arguments, **options), self.limit)

    call_s3 = sync_wrapper(_call_s3)


def connect(env: Mapping[str, str], limit: float) -> BoundedS3:
    """Return the file system of the endpoint and with the credentials in `env`. Contacts no server.

    A server counts as lost after `limit` seconds without a byte.
    """
    endpoint = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL")
    region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION")
    config: dict[str, Any] = {
        "connect_timeout": _CONNECT_TIMEOUT,
        "read_timeout": limit,
        "retries": {"max_attempts": 2},  # callers try again, and say so
    }
    if endpoint:  # servers other than Amazon's may not know the checksums that newer clients add to every request
        when = "when_required"
        config.update(request_checksum_calculation=when, response_checksum_validation=when)
    return BoundedS3(
        _LIMITS_OF_REQUEST * limit,
        key=env.get("AWS_ACCESS_KEY_ID"),
        secret=env.get("AWS_SECRET_ACCESS_KEY"),
        token=env.get("AWS_SESSION_TOKEN"),
        endpoint_url=endpoint,
        client_kwargs={"region_name": region} if region else {},
        config_kwargs=config,
        use_listings_cache=False,
    )
