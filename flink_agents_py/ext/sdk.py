"""SDKs of model services: heavy to import (1 to 3 s), so imported on the worker, when needed, and off its threads."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import sys
import threading
from contextlib import suppress
from typing import Any

from flink_agents_py.errors import EnvironmentSetupError


class Sdk:
    """A package that an extra of ours brings.

    Args:
        module: what to import.
        extra: the extra of flink-agents-py that has it.
    """

    def __init__(self, module: str, extra: str) -> None:
        self.module = module
        self._extra = extra

    def warm(self) -> None:
        """Begin to import it on a thread of its own.

        Raises:
            EnvironmentSetupError: it is not installed.
        """
        if self.module in sys.modules:
            return
        if importlib.util.find_spec(self.module) is None:
            raise self._missing()
        threading.Thread(target=self._import_quietly, name=f"import-{self.module}", daemon=True).start()

    def load(self) -> Any:
        """The module.

        Raises:
            EnvironmentSetupError: it is not installed.
        """
        loaded = sys.modules.get(self.module)
        if loaded is not None and not getattr(loaded.__spec__, "_initializing", False):
            return loaded
        try:
            return importlib.import_module(self.module)
        except ModuleNotFoundError as error:
            raise self._missing() from error

    async def aload(self) -> Any:
        """The module, without holding up the event loop while it is imported."""
        loaded = sys.modules.get(self.module)
        if loaded is not None and not getattr(loaded.__spec__, "_initializing", False):
            return loaded
        return await asyncio.to_thread(self.load)

    def _import_quietly(self) -> None:
        with suppress(Exception):  # whoever uses it gets the error, where it can be seen
            self.load()

    def _missing(self) -> EnvironmentSetupError:
        return EnvironmentSetupError(
            f"the package {self.module!r} is not installed",
            where=f"extra {self._extra!r}",
            fix=f"pip install 'flink-agents-py[{self._extra}]', on the workers too",
        )
