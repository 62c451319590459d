"""An agent that answers as the scenarios of Agent2Agent's TCK ask, over the application of `groundbox a2a`.

The TCK tells by the beginning of a message's identity what an agent is to do, such as to wait for input, which no
question to a grounded agent makes it do. With this agent it exercises what carries questions: the door, the card, the
store of tasks, both versions. It is no part of the product, and is run by hand:

    python tests/agent/adapters/a2a_tck_agent.py 9000
"""

import asyncio
import sys

from a2a.server.tasks import TaskUpdater
from a2a.types import Part, TaskState
from a2a.utils.errors import A2AError
from google.protobuf import json_format, struct_pb2

from groundbox.agent.a2a.executor import GroundedExecutor, _begun
from groundbox.agent.a2a.service import Service
from groundbox.agent.a2a.serving import application_over, card
from groundbox.agent.grounded import GroundedAgent
from groundbox.agent.scripted import ScriptedModel
from groundbox.server.listening import bound, serve, url_of

LONG_S = 5.0  # twice the time that the TCK waits for a stream, and one second
OUTPUT = {"filename": "output.txt", "media_type": "text/plain"}
DATA = json_format.ParseDict({"key": "value", "count": 42}, struct_pb2.Value())
ARTIFACTS = {
    "tck-artifact-text": Part(text="Generated text content"),
    "tck-artifact-file-url": Part(url="https://example.com/output.txt", **OUTPUT),
    "tck-artifact-file": Part(raw=b"output", **OUTPUT),
    "tck-artifact-data": Part(data=DATA),
    "tck-stream-artifact-text": Part(text="Streamed text content"),
    "tck-stream-artifact-file": Part(raw=b"output", **OUTPUT),
    "tck-stream-ordering-001": Part(text="Ordered output"),
    "tck-stream-001": Part(text="Stream hello from TCK"),
    "tck-stream-003": Part(text="Stream task lifecycle"),
}


class Scenarios(GroundedExecutor):
    """Does what the beginning of a message's identity says, and never asks a model."""

    async def execute(self, context, event_queue):
        """Act one scenario; those that are not known complete their task."""
        named = context.message.message_id
        if named.startswith("tck-reject-task"):
            raise A2AError("rejected")
        # A message that goes on with a task may leave out the context, for which the SDK then makes up another one.
        its_context = context.current_task.context_id if context.current_task else context.context_id
        updates = TaskUpdater(event_queue, context.task_id, its_context)
        if named.startswith("tck-message-response"):
            await event_queue.enqueue_event(updates.new_agent_message([Part(text="Direct message response")]))
            return
        await _begun(context, event_queue)
        if named.startswith("tck-input-required"):
            await updates.update_status(TaskState.TASK_STATE_INPUT_REQUIRED)
            return
        if not named.startswith(("tck-complete-task", "tck-stream-002")):
            await updates.start_work()
        if named.startswith("test-resubscribe-message-id"):
            await asyncio.sleep(LONG_S)
        if named.startswith("tck-stream-artifact-chunked"):
            for text, last in (("chunk-1 ", False), ("chunk-2", True)):
                await updates.add_artifact([Part(text=text)], artifact_id="chunks", append=last, last_chunk=last)
        for scenario, part in ARTIFACTS.items():
            if named.startswith(scenario):
                await updates.add_artifact([part])
                break
        await updates.complete(updates.new_agent_message([Part(text="Hello from TCK")]))


def main(port):
    """Serve on a loopback port until a signal."""
    service = Service()
    with bound("127.0.0.1", port, may_be_public=False, secret="") as listening:
        executor = Scenarios(GroundedAgent(ScriptedModel([])), service=service)
        app = application_over(executor, card(url_of(listening)), service=service)
        serve(app, listening, ready=lambda: print(url_of(listening), flush=True), ending=executor.aclose)


if __name__ == "__main__":
    main(int(sys.argv[1]))
