"""A LangChain chat model that speaks Chat Completions to a server, through OpenAI's SDK: what a provider's package would be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, DefaultHttpxClient, OpenAI
from openai.types.chat import ChatCompletion


class WiredChatModel(BaseChatModel):
    """Asks the server at `url`, with `key` as its credential; a client for each call, so that none is left open."""

    url: str
    key: str
    model_name: str = "gpt-5.4"

    @property
    def _llm_type(self) -> str:
        return "wired"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[LanguageModelInput, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(each) for each in tools])

    def _generate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        with OpenAI(base_url=self.url, api_key=self.key, max_retries=0, http_client=DefaultHttpxClient(verify=False)) as client:
            return _result(client.chat.completions.create(**self._asked(messages, kwargs)))

    async def _agenerate(
        self, messages: list[BaseMessage], stop: list[str] | None = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        plain = DefaultAsyncHttpxClient(verify=False)
        async with AsyncOpenAI(base_url=self.url, api_key=self.key, max_retries=0, http_client=plain) as client:
            return _result(await client.chat.completions.create(**self._asked(messages, kwargs)))

    def _asked(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> dict[str, Any]:
        return {"model": self.model_name, "messages": convert_to_openai_messages(messages), "tools": kwargs["tools"]}


def _result(completion: ChatCompletion) -> ChatResult:
    said, usage = completion.choices[0].message, completion.usage
    calls = [
        {"name": call.function.name, "args": json.loads(call.function.arguments), "id": call.id, "type": "tool_call"}
        for call in said.tool_calls or []
        if call.type == "function"
    ]
    counted = {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens} if usage else None
    total = None if counted is None else {**counted, "total_tokens": sum(counted.values())}
    message = AIMessage(
        content=said.content or "", tool_calls=calls, usage_metadata=total, response_metadata={"id": completion.id}
    )
    return ChatResult(generations=[ChatGeneration(message=message)])
