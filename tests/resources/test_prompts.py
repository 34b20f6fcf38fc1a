"""Prompts: plain names in braces are filled in, everything else stays."""

from __future__ import annotations

from flink_agents_py import Agent, AgentPlan, ChatMessage, ImagePart, MessageRole, Prompt, ResourceType


def test_names_are_filled_in_and_other_braces_stay():
    prompt = Prompt.from_text('{who}: {"a": {n}} {unknown} {{who}}')
    assert prompt.format_string(who="ann", n=1) == 'ann: {"a": 1} {unknown} {ann}'


def test_a_text_becomes_a_message_of_the_role_asked_for():
    (message,) = Prompt.from_text("hi {n}").format_messages(role=MessageRole.USER, n=1)
    assert (message.role, message.text) == (MessageRole.USER, "hi 1")


def test_messages_keep_their_roles_and_images():
    image = ImagePart(url="http://x/y.png")
    prompt = Prompt.from_messages([ChatMessage.system("be {mood}"), ChatMessage.user("see {what}", image)])
    system, user = prompt.format_messages(mood="kind", what="this")
    assert (system.role, system.text) == (MessageRole.SYSTEM, "be kind")
    assert user.content[0].text == "see this"
    assert user.content[1] == image
    assert prompt.format_string(mood="kind", what="this") == "system: be kind\nuser: see this"


def test_a_prompt_travels_in_the_plan():
    prompt = Prompt.from_messages([ChatMessage.user("hi {n}")])
    agent = Agent().add_resource("p", ResourceType.PROMPT, prompt)
    plan = AgentPlan.from_json(AgentPlan.from_agent(agent).to_json())
    assert plan.get_resource("p", ResourceType.PROMPT) == prompt
