"""LangChain: SummarizationMiddleware, and threadkeep's middleware in its place."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import unescape

if TYPE_CHECKING:
    from benchmarks.compactors.driver import Message, Session


class Own:
    """SummarizationMiddleware, told to summarise now; it keeps half of the budget as it is."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def window(self, messages: list[Message], budget: int) -> list[Message]:
        middleware = import_module("langchain.agents.middleware").SummarizationMiddleware
        fake = import_module("langchain_core.language_models.fake_chat_models").FakeListChatModel
        told = import_module("langchain_core.messages").get_buffer_string

        def summarise(shown: list[Any]) -> str:
            # The form it sends to a model of its own: calls with their arguments, every text whole. A model reads what is escaped
            # there as what it stands for; a script compares letters.
            return self._session.ask(unescape(told(shown, format="xml")))

        made = middleware(
            model=fake(responses=[""]),
            trigger=("messages", 1),
            keep=("tokens", max(1, budget // 2)),
            trim_tokens_to_summarize=None,
            summarizer=summarise,
        )
        return _before_model(made, messages)


class Through:
    """threadkeep's middleware, which replaces the agent's state as the session goes on."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def window(self, messages: list[Message], budget: int) -> list[Message]:
        middleware = import_module("threadkeep.adapters.langchain").ThreadkeepMiddleware
        import_module("langchain_core.runnables.config").var_child_runnable_config.set({"configurable": {}})
        return _before_model(middleware(self._session.settings(budget), thread_id="bench", replaces_state=True), messages)


def _before_model(middleware: Any, messages: list[Message]) -> list[Message]:
    core = import_module("langchain_core.messages")
    typed = core.convert_to_messages([{**message, "content": message.get("content") or ""} for message in messages])
    found = middleware.before_model({"messages": typed}, None)
    shown = typed if found is None else [each for each in found["messages"] if each.type != "remove"]
    back: list[Message] = core.convert_to_openai_messages(shown)
    return back
