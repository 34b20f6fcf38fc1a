"""Names of the resource classes that come with the package, for descriptors: ``ResourceDescriptor(clazz=NAME, ...)``.

Named by strings, so that nothing is imported (and no SDK needed) where an agent is merely compiled.
"""

from __future__ import annotations

_EXT = "flink_agents_py.ext"


class ResourceName:
    """``ResourceName.ChatModel.OPENAI_COMPLETIONS_CONNECTION`` and the like, grouped as in Apache Flink Agents."""

    class ChatModel:
        """Connections to model services, and the setups that go with them."""

        OPENAI_COMPLETIONS_CONNECTION = f"{_EXT}.openai:OpenAIChatModelConnection"
        OPENAI_COMPLETIONS_SETUP = f"{_EXT}.openai:OpenAIChatModelSetup"
        # Everything that speaks OpenAI's protocol is the same connection under another base URL.
        VLLM_CONNECTION = OPENAI_COMPLETIONS_CONNECTION
        VLLM_SETUP = OPENAI_COMPLETIONS_SETUP
        AZURE_OPENAI_CONNECTION = f"{_EXT}.openai:AzureOpenAIChatModelConnection"
        AZURE_OPENAI_SETUP = f"{_EXT}.openai:AzureOpenAIChatModelSetup"
        LOCAL_CONNECTION = f"{_EXT}.local_model:LocalChatModelConnection"
        LOCAL_SETUP = OPENAI_COMPLETIONS_SETUP
        ANTHROPIC_CONNECTION = f"{_EXT}.anthropic:AnthropicChatModelConnection"
        ANTHROPIC_SETUP = f"{_EXT}.anthropic:AnthropicChatModelSetup"
        OLLAMA_CONNECTION = f"{_EXT}.ollama:OllamaChatModelConnection"
        OLLAMA_SETUP = f"{_EXT}.ollama:OllamaChatModelSetup"

    class EmbeddingModel:
        """Embedding models."""

        LOCAL_CONNECTION = f"{_EXT}.model2vec:LocalEmbeddingModelConnection"
        LOCAL_SETUP = f"{_EXT}.model2vec:LocalEmbeddingModelSetup"
        OPENAI_CONNECTION = f"{_EXT}.openai_embedding:OpenAIEmbeddingModelConnection"
        OPENAI_SETUP = f"{_EXT}.openai_embedding:OpenAIEmbeddingModelSetup"

    class VectorStore:
        """Vector stores."""

        SQLITE_VEC = f"{_EXT}.sqlite_vec:SqliteVecVectorStore"
        PGVECTOR = f"{_EXT}.pgvector:PgVectorStore"

    MCP_SERVER = f"{_EXT}.mcp:MCPServer"
