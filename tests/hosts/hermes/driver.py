"""Runs the real Hermes agent through some turns, as one process of the host: `python driver.py < plan.json`.

The plan names the provider, the session, and what the user says; the last line printed is what became of it, as JSON. A session
that is in the host's database is resumed from there, as the host's own faces do.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    plan = json.load(sys.stdin)
    from hermes_cli.plugins import get_plugin_commands
    from hermes_state import SessionDB
    from run_agent import AIAgent

    database = SessionDB()
    session = plan["session"]
    if plan.get("lease_expired"):
        # A process that dies in a compaction holds the host's own lease on the session for five more minutes.
        with database._lock:
            database._conn.execute("DELETE FROM compression_locks")
            database._conn.commit()
    history = database.get_messages_as_conversation(session, repair_alternation=True) if database.get_session(session) else []
    agent = AIAgent(
        base_url=plan["url"],
        api_key="sk-scripted",
        provider="custom",
        model="scripted",
        quiet_mode=True,
        skip_memory=True,
        skip_context_files=True,
        enabled_toolsets=["todo", "file", "context_engine"],
        session_db=database,
        session_id=session,
        platform="cli",
        max_iterations=8,
    )
    if plan.get("dies") == "before_storing":
        # The process is gone between a compaction and the host's own write of the list that came of it.
        database.archive_and_compact = lambda *args, **kwargs: os._exit(9)
    if todos := plan.get("todos"):
        agent._todo_store.write(todos)
    answers: list[str] = []
    for said in plan["says"]:
        result = agent.run_conversation(said, conversation_history=history)
        history = result["messages"]
        answers.append(result["final_response"])
    engine = agent.context_compressor
    command = get_plugin_commands().get("threadkeep")
    report = {
        "engine": engine.name,
        "module": type(engine).__module__,
        "tools": sorted(agent._context_engine_tool_names),
        "answers": answers,
        "roles": [message["role"] for message in history],
        "results": [message["content"] for message in history if message["role"] == "tool"],
        "session": agent.session_id,
        "status": engine.get_status() if hasattr(engine, "get_status") else {},
        "rows": stored(database, agent.session_id),
        "figures": command["handler"]("") if command else "",
    }
    if plan.get("dies") == "at_the_end":
        write(report)
        os._exit(9)
    agent.shutdown_memory_provider(history)
    write(report)


def stored(database: Any, session: str) -> list[list[str]]:
    messages = database.get_messages_as_conversation(session)
    return [[message["role"], str(message["content"])] for message in messages]


def write(report: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
