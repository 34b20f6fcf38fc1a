"""Embeddings, in the process and from a service, and an agent that looks things up with them."""

from __future__ import annotations

import asyncio

import pytest

from flink_agents_py import (
    Agent,
    AgentsExecutionEnvironment,
    ContextRetrievalRequestEvent,
    ContextRetrievalResponseEvent,
    InputEvent,
    OutputEvent,
    ResourceDescriptor,
    ResourceName,
    ResourceType,
    action,
)
from flink_agents_py.errors import EnvironmentSetupError, ModelRequestError, ModelUnavailableError
from flink_agents_py.ext.model2vec import LocalEmbeddingModelConnection
from flink_agents_py.ext.openai_embedding import OpenAIEmbeddingModelConnection
from flink_agents_py.ext.sqlite_vec import SqliteVecVectorStore
from flink_agents_py.resources.vector_stores import Document
from flink_agents_py.testing import ModelFault, OpenAIServer


def similarity(left, right):
    return sum(x * y for x, y in zip(left, right, strict=True))


def test_the_packaged_model_knows_what_belongs_together():
    model = LocalEmbeddingModelConnection()
    meal, food, car = model.embed(["a tasty meal", "the food was delicious", "the car broke down"])
    assert similarity(meal, food) > 0.3 > similarity(meal, car)
    assert model.embed("a tasty meal") == pytest.approx(meal)
    assert asyncio.run(model.aembed("a tasty meal")) == pytest.approx(meal)


def test_a_model_that_is_not_there_is_not_looked_for_on_the_network(tmp_path):
    with pytest.raises(EnvironmentSetupError, match="no model2vec model"):
        LocalEmbeddingModelConnection(model_path=str(tmp_path)).embed("x")


def test_a_service_is_asked_in_batches_and_its_errors_have_our_names():
    faults = {"busy": ModelFault(429, retry_after_ms=250), "wrong": ModelFault(400)}
    with OpenAIServer(faults=lambda request: faults.get(request.body["input"][0])) as server:
        model = OpenAIEmbeddingModelConnection(base_url=server.url, batch_size=2)
        one, _, three = model.embed(["red car", "milk", "red bike"], model="e")
        assert similarity(one, three) == pytest.approx(0.5, abs=1e-5)
        assert [request.body["input"] for request in server.requests] == [["red car", "milk"], ["red bike"]]
        with pytest.raises(ModelUnavailableError) as limited:
            model.embed("busy", model="e")
        assert limited.value.retry_after == 0.25
        with pytest.raises(ModelRequestError):
            asyncio.run(model.aembed("wrong", model="e"))
        model.close()


class Librarian(Agent):
    @action(InputEvent)
    @staticmethod
    def ask(event, ctx):
        request = ContextRetrievalRequestEvent(event.input, "shelf", max_results=1, filters={"lent": False})
        ctx.send_event(request)

    @action(ContextRetrievalResponseEvent)
    @staticmethod
    def found(event, ctx):
        ctx.send_event(OutputEvent([document.id for document in event.documents]))


def test_an_agent_looks_up_what_is_on_the_shelf(tmp_path):
    path = str(tmp_path / "shelf.db")
    shelf = SqliteVecVectorStore(path=path)
    shelf._embedding_model = LocalEmbeddingModelConnection()
    shelf.add(
        [
            Document(id="cooking", content="recipes for delicious meals", metadata={"lent": False}),
            Document(id="baking", content="bread, cakes and other delicious food", metadata={"lent": True}),
            Document(id="repair", content="how to repair your car", metadata={"lent": False}),
        ]
    )
    shelf.close()
    agents = AgentsExecutionEnvironment.get_execution_environment()
    for name, kind, clazz, arguments in [
        ("local", ResourceType.EMBEDDING_MODEL_CONNECTION, ResourceName.EmbeddingModel.LOCAL_CONNECTION, {}),
        ("model", ResourceType.EMBEDDING_MODEL, ResourceName.EmbeddingModel.LOCAL_SETUP, {"connection": "local"}),
        (
            "shelf",
            ResourceType.VECTOR_STORE,
            ResourceName.VectorStore.SQLITE_VEC,
            {"path": path, "embedding_model": "model"},
        ),
    ]:
        agents.add_resource(name, kind, ResourceDescriptor(clazz, **arguments))
    said = [{"key": "ann", "value": "tasty food"}, {"key": "ben", "value": "my vehicle broke"}]
    found = agents.from_list(said).apply(Librarian()).to_list()
    assert sorted(found, key=str) == [{"ann": ["cooking"]}, {"ben": ["repair"]}]  # keys do not wait for each other
