"""Models that say what was written down before: for tests, and for recorded conversations."""

from __future__ import annotations

from collections.abc import Sequence

from groundbox.agent.messages import Message, ModelFailed, Reply, Tool


class ScriptedModel:
    """Gives its replies one after another.

    Attributes:
        asked: The messages of every request, for tests.
    """

    def __init__(self, replies: Sequence[Reply | str], *, name: str = "scripted") -> None:
        self._replies = [Reply(text=reply) if isinstance(reply, str) else reply for reply in replies]
        self._name = name
        self.asked: list[Sequence[Message]] = []

    @property
    def name(self) -> str:
        """What transcripts call it."""
        return self._name

    async def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool]) -> Reply:
        """The next reply.

        Raises:
            ModelFailed: All have been given.
        """
        self.asked.append(list(messages))
        if len(self.asked) > len(self._replies):
            raise ModelFailed(self._name, f"all of its {len(self._replies)} replies have been given")
        return self._replies[len(self.asked) - 1]


class RecordedModel:
    """Gives the same replies to every question, each conversation from the first one on.

    It keeps nothing: how far a conversation is, its messages tell. Several may therefore go on at once.
    """

    def __init__(self, replies: Sequence[Reply], *, name: str = "recorded") -> None:
        self._replies, self._name = tuple(replies), name

    @property
    def name(self) -> str:
        """What transcripts call it."""
        return self._name

    async def complete(self, messages: Sequence[Message], *, tools: Sequence[Tool]) -> Reply:
        """The reply after those that the messages hold.

        Raises:
            ModelFailed: They hold all.
        """
        given = sum(message.role == "assistant" for message in messages)
        if given >= len(self._replies):
            problem = f"all {len(self._replies)} replies of the recording have been given, and none of them ended it"
            raise ModelFailed(self._name, f"{problem}; the runs went another way than then, or it was cut off")
        return self._replies[given]
