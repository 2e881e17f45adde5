"""The operating system's errors as those of a host."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from tfprov.errors import HostError

Method = TypeVar("Method", bound=Callable[..., Any])


def mapped(method: Method) -> Method:
    """Turn the operating system's errors into one line that names the `host` of the method's object."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise HostError(self.host, f"{error.strerror or error}{where}") from error

    return call  # type: ignore[return-value]
