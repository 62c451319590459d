"""`groundbox serve` whose tools over MCP are those that the protocol's conformance suite calls.

The suite calls tools of its own example server by name, which a code interpreter has no use for. With them in place of
ours the suite exercises what carries tools: sessions, streams, progress, errors, and content of every kind. It takes
the options of `groundbox serve`, and is run by hand, as docs/wires/mcp.md says.
"""

import base64
import functools
import io
import sys
import wave

from groundbox.agent import mcp
from groundbox.cli.main import main
from groundbox.errors import InvalidArgument
from groundbox.server.wires import mcp as wire

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
NOTHING = {"type": "object", "properties": {}}
CONDITIONAL = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def sound():
    """A WAV of one silent sample."""
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setparams((1, 2, 8000, 1, "NONE", ""))
        file.writeframes(b"\0\0")
    return base64.b64encode(written.getvalue()).decode()


def resource(uri, media_type, text):
    """A resource that lies in a result."""
    return {"type": "resource", "resource": {"uri": uri, "mimeType": media_type, "text": text}}


def picture():
    """A picture of one pixel."""
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


class SuiteTools(mcp.Tools):
    """Tools that the suite calls, each with what it expects of it."""

    offered = tuple(
        {"name": name, "description": "A tool of the conformance suite.", "inputSchema": schema}
        for name, schema in (
            ("test_simple_text", NOTHING),
            ("test_image_content", NOTHING),
            ("test_audio_content", NOTHING),
            ("test_embedded_resource", NOTHING),
            ("test_multiple_content_types", NOTHING),
            ("test_error_handling", NOTHING),
            ("test_tool_with_progress", NOTHING),
            ("test_streaming_elicitation", NOTHING),
            ("test_logging_tool", NOTHING),
            ("greet", {"type": "object", "properties": {"name": {"type": "string"}}}),
            ("json_schema_2020_12_tool", CONDITIONAL),
        )
    )

    async def _test_simple_text(self):
        return mcp.text_result("This is a simple text response for testing.")

    async def _test_image_content(self):
        return {"content": [picture()], "isError": False}

    async def _test_audio_content(self):
        return {"content": [{"type": "audio", "data": sound(), "mimeType": "audio/wav"}], "isError": False}

    async def _test_embedded_resource(self):
        text = "This is an embedded resource content."
        return {"content": [resource("test://embedded-resource", "text/plain", text)], "isError": False}

    async def _test_multiple_content_types(self):
        told = {"type": "text", "text": "Multiple content types test:"}
        data = resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
        return {"content": [told, picture(), data], "isError": False}

    async def _test_error_handling(self):
        raise InvalidArgument("test", "This tool intentionally returns an error for testing")

    async def _test_tool_with_progress(self):
        """Run long enough in the sandbox that progress, which is told each second, is told three times."""
        execution = await self._place.run("import time\ntime.sleep(5)\nprint('done')")
        return mcp.text_result(execution.stdout)

    async def _test_streaming_elicitation(self):
        """Answer without asking the client, as every tool here does: the suite looks for requests in the stream."""
        return mcp.text_result("Nothing was asked.")

    async def _test_logging_tool(self):
        return mcp.text_result("Nothing was logged.")

    async def _greet(self, name="nobody"):
        return mcp.text_result(f"Hello, {name}!")

    async def _json_schema_2020_12_tool(self, **given):
        return mcp.text_result(repr(given))

    methods = {
        "test_simple_text": _test_simple_text,
        "test_image_content": _test_image_content,
        "test_audio_content": _test_audio_content,
        "test_embedded_resource": _test_embedded_resource,
        "test_multiple_content_types": _test_multiple_content_types,
        "test_error_handling": _test_error_handling,
        "test_tool_with_progress": _test_tool_with_progress,
        "test_streaming_elicitation": _test_streaming_elicitation,
        "test_logging_tool": _test_logging_tool,
        "greet": _greet,
        "json_schema_2020_12_tool": _json_schema_2020_12_tool,
    }


if __name__ == "__main__":
    wire.routes = functools.partial(wire.routes, tools=SuiteTools)  # which the application asks for by this name
    sys.argv[1:1] = ["serve"]
    main()
