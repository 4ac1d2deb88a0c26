"""The four dialects as their clients and providers write them: what the shipped checks and the tests across dialects speak."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from threadkeep.dialects import Dialect, Reply, find_dialect
from threadkeep.items import Item
from threadkeep.testing.dialect_checks import DialectSamples, Streamed

Json = dict[str, Any]

FIXTURES: Final = Path(__file__).parent / "fixtures"
MARKER: Final = {"type": "ephemeral"}
PICTURE: Final = "iVBORw0KGgo="


def _bodies(folder: Path) -> list[bytes]:
    """Return the recorded requests of a folder, answers left out."""
    bodies = [path.read_bytes().strip() for path in sorted(folder.glob("*.json"))]
    return [body for body in bodies if b'"messages"' in body]


class ResponsesSamples:
    """Items as Codex sends them."""

    dialect: Dialect = find_dialect("responses")
    requests: Sequence[bytes] = (
        b'{"model":"m","temperature":0.70,"input":[{"role":"developer","content":"d"},'
        b'{"type":"message", "role":"user","content":"caf\\u00e9"},{"type":"new_thing","x":[ 1.0 ]}],"stream":true}',
        b'{"input":[],"x":{ "y":1e2}}',
    )
    streams: Sequence[Streamed] = (
        Streamed(
            stream=b"".join(
                [
                    b'data: {"type":"response.created","response":{"id":"r"}}\n\n',
                    'data: {"type":"response.output_text.delta","delta":"grü"}\n\n'.encode(),
                    b'event: response.output_item.done\ndata: {"type":"response.output_item.done","output_index":1,'
                    + 'data: "item":{ "type":"message","n": 1.50,"t":"grüß ✓" }}\n\n'.encode().removeprefix(b"data: "),
                    b'data: {"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","e":"\\/"}}\n\n',
                    b'data: {"type":"response.completed","response":{"id":"r","usage":{"input_tokens":9,"output_tokens":2,'
                    b'"input_tokens_details":{"cached_tokens":4}}}}\n\n',
                ]
            ),
            reply=Reply(
                items=(
                    Item(b'{"type":"reasoning","e":"\\/"}'),
                    Item('{ "type":"message","n": 1.50,"t":"grüß ✓" }'.encode()),
                ),
                input_tokens=9,
                output_tokens=2,
                cached_tokens=4,
                response_id="r",
                outcome="completed",
            ),
        ),
        Streamed(
            stream=b'data: {"type":"response.created","response":{"id":"r"},"sequence_number":0}\n\n'
            b'data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","name":"ls",'
            b'"call_id":"c"},"sequence_number":1}\n\n'
            b'data: {"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c",'
            b'"name":"ls","arguments":"{}"},"sequence_number":2}\n\n'
            b'data: {"type":"response.completed","response":{"id":"r","usage":{"input_tokens":9,"output_tokens":2}},'
            b'"sequence_number":3}\n\n',
            reply=Reply(
                items=(Item(b'{"type":"function_call","call_id":"c","name":"ls","arguments":"{}"}'),),
                input_tokens=9,
                output_tokens=2,
                response_id="r",
                outcome="completed",
            ),
        ),
        Streamed(
            stream=b'data: {"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}\n\n',
            reply=Reply(outcome="incomplete"),
            stop_reason="content_filter",
        ),
    )

    def person(self, text: str) -> Json:
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}

    def pictured(self, text: str) -> Json:
        image = {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"}
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}, image]}

    def host(self, text: str) -> Json:
        return self.person(f"<environment_context>\n{text}\n</environment_context>")

    def system(self, text: str) -> Json:
        return {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]}

    def answer(self, text: str) -> Json:
        return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}

    def thought(self, text: str) -> Json:
        return {"type": "reasoning", "summary": [], "encrypted_content": text}

    def calls(self, arguments: Mapping[str, str], *, thought: str | None = None) -> list[Json]:
        made = [
            {"type": "function_call", "name": "shell", "arguments": text, "call_id": call_id}
            for call_id, text in arguments.items()
        ]
        return [self.thought(thought), *made] if thought else made

    def outputs(self, texts: Mapping[str, str]) -> list[Json]:
        return [{"type": "function_call_output", "call_id": call_id, "output": text} for call_id, text in texts.items()]

    def sealed(self, secret: str) -> Json:
        return self.thought(secret)

    def mixed(self, host: str, said: str) -> Json:
        return {**self.person(said), "content": [*self.host(host)["content"], *self.person(said)["content"]]}

    def unknown(self) -> Json:
        return {"type": "holiday_card", "verse": [1, None]}

    def respelled(self, item: Json) -> Json:
        spelled = {**item, "status": "completed", "cache_control": MARKER}
        if item["type"] == "message":
            content = item["content"]
            parts = [{**part, "cache_control": MARKER, "annotations": []} for part in content]
            spelled |= {"id": "msg_1", "content": content[0]["text"] if len(content) == 1 else parts}
            del spelled["type"]
        return spelled

    def may_follow(self, before: Json, after: Json) -> bool:
        return True


class ChatSamples:
    """Messages as clients of Chat Completions send them."""

    dialect: Dialect = find_dialect("chat")
    requests: Sequence[bytes] = _bodies(FIXTURES / "chat" / "requests")
    streams: Sequence[Streamed] = (
        Streamed(
            stream=(FIXTURES / "chat" / "streams" / "text.sse").read_bytes(),
            reply=Reply(
                items=(Item('{"role":"assistant","content":"grüß ✓\\n"}'.encode()),),
                input_tokens=120,
                output_tokens=7,
                cached_tokens=100,
                response_id="chatcmpl-1",
                outcome="completed",
            ),
        ),
        Streamed(
            stream=(FIXTURES / "chat" / "streams" / "without_done.sse").read_bytes(),
            reply=Reply(
                items=(Item(b'{"role":"assistant","content":"Half a sentence"}'),),
                input_tokens=3,
                output_tokens=2,
                response_id="x",
                outcome="incomplete",
            ),
            ended=False,
        ),
        Streamed(
            stream=b'data: {"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"Look."}}]}\n\n'
            b'data: {"id":"x","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":'
            b'{"name":"ls","arguments":"{}"}}]}}]}\n\n'
            b'data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,'
            b'"completion_tokens":2}}\n\ndata: [DONE]\n\n',
            reply=Reply(
                items=(
                    Item(
                        b'{"role":"assistant","content":"Look.","tool_calls":[{"id":"c","type":"function","function":'
                        b'{"name":"ls","arguments":"{}"}}]}'
                    ),
                ),
                input_tokens=3,
                output_tokens=2,
                response_id="x",
                outcome="completed",
            ),
            stop_reason="tool_calls",
        ),
    )

    def person(self, text: str) -> Json:
        return {"role": "user", "content": text}

    def pictured(self, text: str) -> Json:
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
        return {"role": "user", "content": [{"type": "text", "text": text}, image]}

    def host(self, text: str) -> Json:
        return self.person(f"<environment_context>\n{text}\n</environment_context>")

    def system(self, text: str) -> Json:
        return {"role": "system", "content": text}

    def answer(self, text: str) -> Json:
        return {"role": "assistant", "content": text}

    def thought(self, text: str) -> Json:
        return {"role": "assistant", "content": "", "reasoning_content": text}

    def calls(self, arguments: Mapping[str, str], *, thought: str | None = None) -> list[Json]:
        made = [
            {"id": call_id, "type": "function", "function": {"name": "shell", "arguments": text}}
            for call_id, text in arguments.items()
        ]
        return [{"role": "assistant", "content": None, "tool_calls": made} | ({"reasoning_content": thought} if thought else {})]

    def outputs(self, texts: Mapping[str, str]) -> list[Json]:
        return [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text in texts.items()]

    def sealed(self, secret: str) -> Json:
        return {**self.answer("Done."), "reasoning_details": [{"type": "reasoning.encrypted", "data": secret}]}

    def mixed(self, host: str, said: str) -> Json:
        texts = (self.host(host)["content"], said)
        return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}

    def unknown(self) -> Json:
        return {"role": "critic", "content": "fine", "score": 2}

    def respelled(self, item: Json) -> Json:
        if item["role"] == "critic":
            return item
        content = item["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        spelled = {**item, "id": "msg_1", "cache_control": MARKER, "refusal": None, "annotations": []}
        return spelled | ({"content": [{**part, "cache_control": MARKER} for part in parts]} if parts is not None else {})

    def may_follow(self, before: Json, after: Json) -> bool:
        return not (before.get("role") == after.get("role") == "user")


class MessagesSamples:
    """Messages as Claude Code sends them."""

    dialect: Dialect = find_dialect("messages")
    requests: Sequence[bytes] = _bodies(FIXTURES / "messages")
    streams: Sequence[Streamed] = (
        Streamed(
            stream=(FIXTURES / "messages" / "thinking_and_call.sse").read_bytes(),
            reply=Reply(
                items=(
                    Item(
                        '{"role":"assistant","content":[{"type":"thinking","thinking":"Look first.","signature":"c2ln"},'
                        '{"type":"text","text":"Grüße ✓\\n"},'
                        '{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls -la","timeout":1.50}},'
                        '{"type":"tool_use","id":"toolu_2","name":"Now","input":{}}]}'.encode()
                    ),
                ),
                input_tokens=1320,
                output_tokens=89,
                cached_tokens=1000,
                response_id="msg_1",
                outcome="completed",
            ),
            stop_reason="tool_use",
        ),
    )

    def person(self, text: str) -> Json:
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    def pictured(self, text: str) -> Json:
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
        return {"role": "user", "content": [{"type": "text", "text": text}, image]}

    def host(self, text: str) -> Json:
        return self.person(f"<system-reminder>\n# Environment\n{text}\n</system-reminder>")

    def system(self, text: str) -> Json:
        return {"role": "system", "content": text}

    def answer(self, text: str) -> Json:
        return {"role": "assistant", "content": [{"type": "text", "text": text}]}

    def thought(self, text: str) -> Json:
        return {"role": "assistant", "content": [self._thinking(text)]}

    def calls(self, arguments: Mapping[str, str], *, thought: str | None = None) -> list[Json]:
        made = [
            {"type": "tool_use", "id": call_id, "name": "shell", "input": json.loads(text)} for call_id, text in arguments.items()
        ]
        return [{"role": "assistant", "content": [*([self._thinking(thought)] if thought else []), *made]}]

    def outputs(self, texts: Mapping[str, str]) -> list[Json]:
        results = [{"type": "tool_result", "tool_use_id": call_id, "content": text} for call_id, text in texts.items()]
        return [{"role": "user", "content": results}]

    def sealed(self, secret: str) -> Json:
        thinking = {"type": "thinking", "thinking": "Hm.", "signature": secret}
        return {"role": "assistant", "content": [thinking, {"type": "text", "text": "Done."}]}

    def mixed(self, host: str, said: str) -> Json:
        return {"role": "user", "content": [*self.host(host)["content"], *self.person(said)["content"]]}

    def unknown(self) -> Json:
        return {"role": "assistant", "content": [{"type": "hologram", "beams": [1, None]}]}

    def respelled(self, item: Json) -> Json:
        content = item["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        spelled = {**item, "id": "msg_1", "content": [{**block, "cache_control": MARKER} for block in blocks]}
        return spelled | ({"type": "message", "stop_reason": "end_turn"} if item["role"] == "assistant" else {})

    def may_follow(self, before: Json, after: Json) -> bool:
        return bool(before["role"] != after["role"] or before["role"] == "system")

    def _thinking(self, text: str) -> Json:
        return {"type": "thinking", "thinking": text, "signature": f"signed {text}"}


class GeminiSamples:
    """Contents as Gemini's own SDK sends them."""

    dialect: Dialect = find_dialect("gemini")
    requests: Sequence[bytes] = (
        b'{"systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":[{"role":"user","parts":[{ "text":"caf\\u00e9"}]},'
        b'{"role":"model","parts":[{"functionCall":{"name":"ls","args":{ "n":1.0}},"thoughtSignature":"c2ln"}]}],'
        b'"generationConfig":{"temperature":0.70}}',
        b'{"contents":[],"x":{ "y":1e2}}',
    )
    streams: Sequence[Streamed] = (
        Streamed(
            stream=b"".join(
                [
                    b'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Hm.","thought":true}]}}]}\n\n',
                    'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Grü"}]},"index":0}]}\n\n'.encode(),
                    'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"ße ✓"}]}}],'
                    '"usageMetadata":{"promptTokenCount":9}}\n\n'.encode(),
                    b'data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"ls","args":{"n":1.50}},'
                    b'"thoughtSignature":"c2ln\\/"}]},"finishReason":"STOP"}],"responseId":"r","usageMetadata":'
                    b'{"promptTokenCount":9,"candidatesTokenCount":2,"thoughtsTokenCount":3,"cachedContentTokenCount":4}}\n\n',
                ]
            ),
            reply=Reply(
                items=(
                    Item(
                        '{"role":"model","parts":[{"text":"Hm.","thought":true},{"text":"Grüße ✓"},'
                        '{"functionCall":{"name":"ls","args":{"n":1.50}},"thoughtSignature":"c2ln\\/"}]}'.encode()
                    ),
                ),
                input_tokens=9,
                output_tokens=5,
                cached_tokens=4,
                response_id="r",
                outcome="completed",
            ),
            stop_reason="STOP",
        ),
    )

    def person(self, text: str) -> Json:
        return {"role": "user", "parts": [{"text": text}]}

    def pictured(self, text: str) -> Json:
        return {"role": "user", "parts": [{"text": text}, {"inlineData": {"mimeType": "image/png", "data": PICTURE}}]}

    def host(self, text: str) -> Json:
        return self.person(f"<environment_context>\n{text}\n</environment_context>")

    def system(self, text: str) -> Json:
        return {"role": "system", "parts": [{"text": text}]}

    def answer(self, text: str) -> Json:
        return {"role": "model", "parts": [{"text": text}]}

    def thought(self, text: str) -> Json:
        return {"role": "model", "parts": [{"text": text, "thought": True, "thoughtSignature": "c2ln"}]}

    def calls(self, arguments: Mapping[str, str], *, thought: str | None = None) -> list[Json]:
        called = ({"id": call_id, "name": "shell", "args": json.loads(text)} for call_id, text in arguments.items())
        made: list[Json] = [{"functionCall": call} for call in called]
        parts = [{"text": thought, "thought": True}] if thought else []
        return [{"role": "model", "parts": [*parts, {**made[0], "thoughtSignature": "c2ln"}, *made[1:]]}]

    def outputs(self, texts: Mapping[str, str]) -> list[Json]:
        answers = ({"id": call_id, "name": "shell", "response": {"output": text}} for call_id, text in texts.items())
        return [{"role": "user", "parts": [{"functionResponse": answer} for answer in answers]}]

    def sealed(self, secret: str) -> Json:
        return {"role": "model", "parts": [{"text": "Done.", "thoughtSignature": secret}]}

    def mixed(self, host: str, said: str) -> Json:
        return {"role": "user", "parts": [*self.host(host)["parts"], *self.person(said)["parts"]]}

    def unknown(self) -> Json:
        return {"role": "model", "parts": [{"hologram": {"beams": [1, None]}}]}

    def respelled(self, item: Json) -> Json:
        spelled: Json = self._snake({name: value for name, value in item.items() if value != "user"})
        return spelled

    def may_follow(self, before: Json, after: Json) -> bool:
        return bool(before["role"] != after["role"] or before["role"] == "system")

    def _snake(self, value: Any) -> Any:
        names = {"functionCall": "function_call", "functionResponse": "function_response", "inlineData": "inline_data"}
        names |= {"mimeType": "mime_type", "thoughtSignature": "thought_signature"}
        if isinstance(value, dict):
            return {names.get(name, name): self._snake(each) for name, each in value.items()}
        return [self._snake(each) for each in value] if isinstance(value, list) else value


SAMPLES: Final[tuple[DialectSamples, ...]] = (ResponsesSamples(), ChatSamples(), MessagesSamples(), GeminiSamples())
