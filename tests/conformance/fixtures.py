"""What the conformance suite wants to find on a server, beside what ours offers: its tools, resources and prompts.

Names and texts are the suite's. Whatever is not one of them goes to the real shelf.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

from limpet.mcp.server import McpHandlers, PageParams, RequestContext

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
PLAIN = "text/plain"

Params = types.CallToolRequestParams
Result = types.CallToolResult | types.InputRequiredResult
Tool = Callable[[RequestContext, Params], Awaitable[Result]]


def text(said: str) -> types.TextContent:
    return types.TextContent(type="text", text=said)


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PIXEL, mime_type="image/png")


def embedded(uri: str, said: str, mime_type: str = PLAIN) -> types.EmbeddedResource:
    return types.EmbeddedResource(
        type="resource", resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=said)
    )


def gives(*content: Any) -> Tool:
    async def give(_call: RequestContext, _params: Params) -> Result:
        return types.CallToolResult(content=list(content))

    return give


def said(answer: str, *, is_error: bool = False) -> Result:
    return types.CallToolResult(content=[text(answer)], is_error=is_error)


# Tools that talk while they work


async def logs(call: RequestContext, _params: Params) -> Result:
    for step in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(call, step)
        await anyio.sleep(0.05)
    return said("Tool with logging executed successfully")


async def log(call: RequestContext, line: str) -> None:
    await call.session.send_log_message("info", line, related_request_id=call.request_id)


async def progresses(call: RequestContext, _params: Params) -> Result:
    for done in (0, 50, 100):
        await call.session.report_progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(0.05)
    return said("done")


async def reconnects(call: RequestContext, _params: Params) -> Result:
    await log(call, "Before disconnect")
    if call.close_sse_stream is not None:
        await call.close_sse_stream()
    await anyio.sleep(0.2)
    await log(call, "After reconnect")
    return said("Reconnection test completed")


async def samples(call: RequestContext, params: Params) -> Result:
    asked = types.SamplingMessage(role="user", content=text((params.arguments or {})["prompt"]))
    result = await call.session.create_message([asked], max_tokens=100, related_request_id=call.request_id)
    return said(f"LLM response: {getattr(result.content, 'text', '')}")


def elicits(schema: dict[str, Any], message: str | None = None) -> Tool:
    async def elicit(call: RequestContext, params: Params) -> Result:
        asked = message or (params.arguments or {})["message"]
        result = await call.session.elicit_form(asked, schema, related_request_id=call.request_id)
        return said(f"Elicitation completed: action={result.action}, content={json.dumps(result.content)}")

    return elicit


def form(**properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


NAME = form(name={"type": "string"})
DEFAULTS = form(
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
PRIORITIES = [{"const": each, "title": each.title()} for each in ("low", "medium", "high")]
ENUMS = form(
    untitledSingle={"type": "string", "enum": ["option1", "option2", "option3"]},
    titledSingle={"type": "string", "oneOf": PRIORITIES},
    untitledMulti={"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
    titledMulti={"type": "array", "items": {"anyOf": PRIORITIES}},
    legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
)


# Tools that need an answer first (2026-07-28)


def elicitation(message: str, schema: dict[str, Any] = NAME) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(question: str) -> types.CreateMessageRequest:
    asked = types.SamplingMessage(role="user", content=text(question))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[asked], max_tokens=100))


def needs(then: str, state: str | None = None, **requests: Any) -> Tool:
    """All of them, and the state as it was given, before it is done."""

    async def need(_call: RequestContext, params: Params) -> Result:
        answered = requests.keys() <= (params.input_responses or {}).keys()
        if answered and params.request_state == state:
            given = (params.input_responses or {}).values()
            return said(f"{then} {'; '.join(each.model_dump_json(exclude_none=True) for each in given)}")
        return types.InputRequiredResult(input_requests=dict(requests), request_state=state)

    return need


async def goes_rounds(_call: RequestContext, params: Params) -> Result:
    answers, reached = params.input_responses or {}, params.request_state
    if reached == "round 2" and "step2" in answers:
        return said("Both steps answered")
    if reached == "round 1" and "step1" in answers:
        return types.InputRequiredResult(
            input_requests={"step2": elicitation("And your favourite colour?", form(color={"type": "string"}))},
            request_state="round 2",
        )
    return types.InputRequiredResult(
        input_requests={"step1": elicitation("What is your name?")}, request_state="round 1"
    )


async def keeps_state(_call: RequestContext, params: Params) -> Result:
    if params.request_state is not None:
        return said(f"state-ok: {params.request_state}")
    asked = elicitation("Please confirm", form(ok={"type": "boolean"}))
    return types.InputRequiredResult(input_requests={"confirm": asked}, request_state="kept")


async def streams_then_asks(call: RequestContext, params: Params) -> Result:
    await progresses(call, params)
    return types.InputRequiredResult(input_requests={"user_name": elicitation("What is your name?")})


async def asks_what_the_client_can(call: RequestContext, _params: Params) -> Result:
    able = call.session.client_capabilities or types.ClientCapabilities()
    requests: dict[str, Any] = {}
    if able.sampling is not None:
        requests["sample"] = sampling("Say hello")
    if able.elicitation is not None:
        requests["ask"] = elicitation("What is your name?")
    return types.InputRequiredResult(input_requests=requests, request_state="asked")


async def needs_sampling(call: RequestContext, _params: Params) -> Result:
    able = call.session.client_capabilities
    if able is None or able.sampling is None:
        needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "this tool needs sampling", needed)
    return said("The client can sample")


MANY_KEYWORDS: dict[str, Any] = {
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
SCHEMAS = {
    "json_schema_2020_12_tool": MANY_KEYWORDS,
    "test_sampling": form(prompt={"type": "string"}),
    "test_elicitation": form(message={"type": "string"}),
    "test_x_mcp_header": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
}
ASKS = "test_input_required_result_"
TOOLS: dict[str, Tool] = {
    "test_simple_text": gives(text("This is a simple text response for testing.")),
    "test_image_content": gives(image()),
    "test_audio_content": gives(types.AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")),
    "test_embedded_resource": gives(embedded("test://embedded-resource", "This is an embedded resource content.")),
    "test_multiple_content_types": gives(
        text("Multiple content types test:"),
        image(),
        embedded("test://mixed-content-resource", '{"test": "data", "value": 123}', "application/json"),
    ),
    "test_error_handling": lambda _call, _params: _soon(
        said("This tool intentionally returns an error for testing", is_error=True)
    ),
    "test_x_mcp_header": gives(text("done")),
    "json_schema_2020_12_tool": gives(text("done")),
    "test_tool_with_logging": logs,
    "test_tool_with_progress": progresses,
    "test_reconnection": reconnects,
    "test_sampling": samples,
    "test_elicitation": elicits(form(response={"type": "string"})),
    "test_elicitation_sep1034_defaults": elicits(DEFAULTS, "Please check these"),
    "test_elicitation_sep1330_enums": elicits(ENUMS, "Please choose"),
    "test_missing_capability": needs_sampling,
    "test_logging_tool": logs,
    "test_streaming_elicitation": streams_then_asks,
    f"{ASKS}elicitation": needs("Hello", user_name=elicitation("What is your name?")),
    f"{ASKS}sampling": needs("Model said", capital_question=sampling("What is the capital of France?")),
    f"{ASKS}list_roots": needs("Roots", client_roots=types.ListRootsRequest()),
    f"{ASKS}request_state": needs(
        "state-ok", "nonce", confirm=elicitation("Please confirm", form(ok={"type": "boolean"}))
    ),
    f"{ASKS}multiple_inputs": needs(
        "All inputs received",
        "many",
        user_name=elicitation("What is your name?"),
        greeting=sampling("Generate a greeting"),
        client_roots=types.ListRootsRequest(),
    ),
    f"{ASKS}multi_round": goes_rounds,
    f"{ASKS}tampered_state": keeps_state,
    f"{ASKS}capabilities": asks_what_the_client_can,
}


async def _soon(result: Result) -> Result:
    return result


def _prompt(*content: Any) -> types.GetPromptResult:
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=each) for each in content])


PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    f"{ASKS}prompt": (),
}
RESOURCES = {
    "test://static-text": (PLAIN, "This is the content of the static text resource."),
    "test://static-binary": ("image/png", PIXEL),
    "test://watched-resource": (PLAIN, "Watched resource content"),
}
TEMPLATE = "test://template/{id}/data"
TEMPLATE_OF = re.compile(r"test://template/([^/]+)/data")


class Fixtures(McpHandlers):
    """The real shelf, with the suite's things beside."""

    bus = InMemorySubscriptionBus()

    async def list_tools(self, call: RequestContext, params: PageParams) -> types.ListToolsResult:
        ours = (await super().list_tools(call, params)).tools
        names = [*TOOLS, "test_trigger_tool_change", "test_trigger_prompt_change"]
        theirs = [
            types.Tool(name=name, description="a fixture", input_schema=SCHEMAS.get(name, {"type": "object"}))
            for name in names
        ]
        return types.ListToolsResult(tools=[*ours, *theirs])

    async def call_tool(self, call: RequestContext, params: Params) -> Result:
        if params.name == "test_trigger_tool_change":
            await self.bus.publish(ToolsListChanged())
            return said("told")
        if params.name == "test_trigger_prompt_change":
            await self.bus.publish(PromptsListChanged())
            return said("told")
        if params.name in TOOLS:
            return await TOOLS[params.name](call, params)
        return await super().call_tool(call, params)

    async def list_resources(self, call: RequestContext, params: PageParams) -> types.ListResourcesResult:
        ours = await super().list_resources(call, params)
        ours.resources += [
            types.Resource(uri=uri, name=uri, mime_type=mime_type) for uri, (mime_type, _) in RESOURCES.items()
        ]
        return ours

    async def list_templates(self, call: RequestContext, params: PageParams) -> types.ListResourceTemplatesResult:
        ours = await super().list_templates(call, params)
        ours.resource_templates.append(
            types.ResourceTemplate(uri_template=TEMPLATE, name="template", mime_type="application/json")
        )
        return ours

    async def read_resource(
        self, call: RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        uri = str(params.uri)
        content: types.TextResourceContents | types.BlobResourceContents
        if match := TEMPLATE_OF.fullmatch(uri):
            filled = json.dumps({"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"})
            content = types.TextResourceContents(uri=uri, mime_type="application/json", text=filled)
        elif uri not in RESOURCES:
            return await super().read_resource(call, params)
        else:
            mime_type, data = RESOURCES[uri]
            content = (
                types.TextResourceContents(uri=uri, mime_type=mime_type, text=data)
                if mime_type == PLAIN
                else types.BlobResourceContents(uri=uri, mime_type=mime_type, blob=data)
            )
        return types.ReadResourceResult(contents=[content])

    async def list_prompts(self, call: RequestContext, params: PageParams) -> types.ListPromptsResult:
        ours = await super().list_prompts(call, params)
        ours.prompts += [
            types.Prompt(
                name=name,
                description="a fixture",
                arguments=[types.PromptArgument(name=each, description="text", required=True) for each in arguments],
            )
            for name, arguments in PROMPTS.items()
        ]
        return ours

    async def get_prompt(
        self, call: RequestContext, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        given = params.arguments or {}
        match params.name:
            case "test_simple_prompt":
                return _prompt(text("This is a simple prompt for testing."))
            case "test_prompt_with_arguments":
                return _prompt(text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"))
            case "test_prompt_with_embedded_resource":
                resource = embedded(given["resourceUri"], "Embedded resource content for testing.")
                return _prompt(resource, text("Please process the embedded resource above."))
            case "test_prompt_with_image":
                return _prompt(image(), text("Please analyze the image above."))
            case "test_input_required_result_prompt":
                if "user_context" in (params.input_responses or {}):
                    return _prompt(text("With the context the user gave"))
                asked = elicitation("Which context?", form(context={"type": "string"}))
                return types.InputRequiredResult(input_requests={"user_context": asked})
        return await super().get_prompt(call, params)

    async def complete(self, call: RequestContext, params: types.CompleteRequestParams) -> types.CompleteResult:
        if isinstance(params.ref, types.PromptReference) and params.ref.name in PROMPTS:
            return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))
        return await super().complete(call, params)


def with_handlers(made: Server[Any]) -> Server[Any]:
    """What the real server does not claim to do, as nothing of ours would use it: log levels and subscriptions."""

    async def nothing(_call: RequestContext, _params: Any) -> types.EmptyResult:
        return types.EmptyResult()

    made.add_request_handler("logging/setLevel", types.SetLevelRequestParams, nothing)
    made.add_request_handler("resources/subscribe", types.SubscribeRequestParams, nothing)
    made.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, nothing)
    made.add_request_handler(
        "subscriptions/listen", types.SubscriptionsListenRequestParams, ListenHandler(Fixtures.bus)
    )
    return made


class Events(EventStore):
    """What was sent on each stream, so that a client that was cut off gets the rest."""

    def __init__(self) -> None:
        self._sent: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self._sent.append((stream_id, message))
        return str(len(self._sent))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        place = int(last_event_id)
        if not 0 < place <= len(self._sent):
            return None
        stream = self._sent[place - 1][0]
        for number, (each, message) in enumerate(self._sent[place:], place + 1):
            if each == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream
