"""Models that say what was written down."""

import asyncio

import pytest

from groundbox.agent.messages import Message, ModelFailed, Reply
from groundbox.agent.scripted import RecordedModel


def test_a_recorded_model_goes_by_the_conversation_and_not_by_how_often_it_was_asked():
    model = RecordedModel([Reply(text="first"), Reply(text="second")], name="recorded:x")
    begun = [Message(role="system"), Message(role="user", text="q")]
    further = [*begun, Message(role="assistant", text="first"), Message(role="tool", text="seen")]

    said = [asyncio.run(model.complete(told, tools=())).text for told in (begun, further, begun, further)]

    assert said == ["first", "second", "first", "second"]
    with pytest.raises(
        ModelFailed,
        match="recorded:x gave no reply: all 2 replies of the recording have been given, and none of them ended it",
    ):
        asyncio.run(model.complete([*further, Message(role="assistant", text="second")], tools=()))
