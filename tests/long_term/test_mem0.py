"""Long-term memory by the real Mem0, with a scripted chat model, on vector stores of ours."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest

from flink_agents_py import ResourceType
from flink_agents_py.errors import ActionFailedError
from flink_agents_py.testing import ScriptedChatModel
from tests.long_term.kit import Doing, counters, does, harness, values

if importlib.util.find_spec("mem0") is None:  # not imported: what switches its telemetry off is set before that
    pytest.skip("mem0 is not installed", allow_module_level=True)

MEM0 = "long-term-memory.mem0"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


def mem0(path, model=None, **more):
    agent = Doing()
    options = {
        "long-term-memory.backend": "mem0",
        f"{MEM0}.vector-store": "memories",
        f"{MEM0}.embedding-model-setup": "words",
        **more,
    }
    if model is not None:
        agent.add_resource("service", ResourceType.CHAT_MODEL_CONNECTION, model.connection)
        agent.add_resource("extractor", ResourceType.CHAT_MODEL, model.setup("service"))
        options[f"{MEM0}.chat-model-setup"] = "extractor"
    return harness(path, agent, **options)


def test_without_a_chat_model_items_are_kept_as_they_are(path):
    memory = mem0(path)
    (cat,) = does(memory, "ann", "aadd", "the cat is called Tom", {"metadatas": {"topic": "pets"}})
    does(memory, "ann", "aadd", [{"town": "Oslo"}, "no dog"])
    assert values(does(memory, "ann", "asearch", "the cat", 1)) == ["the cat is called Tom"]
    assert values(does(memory, "ann", "aget")) == ["the cat is called Tom", {"town": "Oslo"}, "no dog"]
    (item,) = does(memory, "ann", "aget", {"filters": {"topic": "pets"}, "limit": 5})
    assert (item.id, item.additional_metadata) == (cat, {"topic": "pets"})
    assert item.created_at is not None
    assert does(memory, "ann", "aupdate", cat, "the cat is called Tim") is True
    assert values(does(memory, "ann", "aget", cat)) == ["the cat is called Tim"]
    assert does(memory, "ann", "adelete", cat) is True
    assert does(memory, "ann", "aupdate", cat, "gone") is False
    assert values(does(memory, "ann", "asearch", "cat dog", 5)) == ["no dog", {"town": "Oslo"}]
    assert does(memory, "ann", "forget") is True
    assert does(memory, "ann", "aget") == []
    assert does(memory, "ann", "forget") is False


def test_a_chat_model_says_what_is_worth_remembering(path):
    def extract(request):
        facts = [{"text": "Ann has a cat"}, {"text": "Ann lives in Oslo"}] if "cat" in request.text else []
        return json.dumps({"memory": facts})

    model = ScriptedChatModel(extract)
    memory = mem0(path, model)
    ids = does(memory, "ann", "aadd", "Hello, I am Ann from Oslo, and my cat is asleep.")
    assert len(ids) == 2
    assert does(memory, "ann", "aadd", "Lovely weather!") == []
    assert sorted(values(does(memory, "ann", "aget"))) == ["Ann has a cat", "Ann lives in Oslo"]
    assert values(does(memory, "ann", "asearch", "Oslo", 1)) == ["Ann lives in Oslo"]
    assert len(model.requests) == 2
    assert counters(memory)["itemsAdded"] == 2


def test_its_telemetry_is_off(path):
    does(mem0(path), "ann", "aget")
    assert sys.modules["mem0.memory.telemetry"].MEM0_TELEMETRY is False


def test_keys_and_jobs_share_nothing(path):
    memory = mem0(path)
    (secret,) = does(memory, "ann", "aadd", "ann's secret")
    assert does(memory, "ben", "asearch", "secret") == []
    assert does(memory, "ben", "aget", secret) == []
    assert does(memory, "ben", "aupdate", secret, "mine") is False
    assert does(memory, "ben", "adelete", secret) is False
    assert does(memory, "ben", "adelete") is False
    assert does(mem0(path, **{"job-identifier": "another"}), "ann", "aget") == []
    assert values(does(mem0(path), "ann", "aget")) == ["ann's secret"]


def test_what_is_added_again_after_a_crash_is_the_same_and_asks_no_model_again(path):
    model = ScriptedChatModel(lambda request: json.dumps({"memory": [{"text": "Ann has a cat"}]}))
    memory = mem0(path, model)
    snapshot = memory.snapshot()
    added = does(memory, "ann", "aadd", "my cat")
    memory.restore(snapshot)
    assert does(memory, "ann", "aadd", "my cat") == added
    assert values(does(memory, "ann", "aget")) == ["Ann has a cat"]
    assert len(model.requests) == 1


def test_a_resource_that_is_not_named_is_asked_for(path):
    memory = mem0(path, **{f"{MEM0}.embedding-model-setup": None})
    with pytest.raises(ActionFailedError, match="embedding-model-setup"):
        does(memory, "ann", "aget")
