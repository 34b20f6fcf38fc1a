"""The action behind :class:`ContextRetrievalRequestEvent`: searches a vector store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flink_agents_py.chat_events import ContextRetrievalRequestEvent, ContextRetrievalResponseEvent
from flink_agents_py.policies import RetryPolicy
from flink_agents_py.resources.base import ResourceType
from flink_agents_py.resources.chat_models import TRANSIENT
from flink_agents_py.resources.vector_stores import (
    BaseVectorStore,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)

if TYPE_CHECKING:
    from flink_agents_py.context import RunnerContext

_RETRY = RetryPolicy(max_attempts=4, retry_on=TRANSIENT)


async def context_retrieval_action(event: ContextRetrievalRequestEvent, ctx: RunnerContext) -> None:
    """One durable call embeds the query and searches, so that no vector goes into the journal."""
    store: BaseVectorStore = ctx.get_resource(event.vector_store, ResourceType.VECTOR_STORE)
    attributes = event.attributes
    query = VectorStoreQuery(
        query_text=event.query,
        limit=event.max_results,
        mode=VectorStoreQueryMode(attributes.get("mode") or "semantic"),
        collection_name=attributes.get("collection"),
        filters=attributes.get("filters"),
    )
    result: VectorStoreQueryResult = await ctx.durable_execute_async(
        store.aquery, query, name=f"query {event.vector_store}", retry=_RETRY
    )
    ctx.send_event(ContextRetrievalResponseEvent(event.id, event.query, result.documents))
