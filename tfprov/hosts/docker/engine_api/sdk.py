"""The docker SDK, imported at its first use: it takes 0.1 s, and verbs that only look at hosts need none of it."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import docker as docker  # noqa: PLC0414  re-exported
else:

    class _SDK:
        """Stands for the module. importlib.util.LazyLoader does the same, but not for several threads (Python 3.11)."""

        def __getattr__(self, name: str) -> Any:
            return getattr(importlib.import_module("docker"), name)

    docker = _SDK()
