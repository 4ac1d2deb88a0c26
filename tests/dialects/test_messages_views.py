"""What threadkeep sees in messages of every form.

Of one dialect alone: these blocks and reminders are the Messages API's; test_chat_views.py has another's.
"""

from __future__ import annotations

from pathlib import Path

from inline_snapshot import snapshot

from threadkeep.dialects import MESSAGES
from threadkeep.items import ItemKind, Role, ToolCall, ToolOutput, View, find_boundaries, find_open_calls, find_orphans

FIXTURES = Path(__file__).parent / "fixtures" / "messages"


def views(name: str) -> list[View]:
    request = MESSAGES.split((FIXTURES / f"{name}.json").read_bytes())
    assert request is not None
    return [MESSAGES.view(item) for item in request.items]


def test_a_session_whose_reminders_stand_in_its_first_message() -> None:
    """Calls open and results close; the first message is a person's, and pinned; who types meanwhile is heard."""
    assert views("reminders_in_first_message") == snapshot(
        [
            View(
                kind=ItemKind.MESSAGE,
                role=Role.USER,
                text="""\
<system-reminder>
# Environment
 - Primary working directory: /srv/orchard
 - Platform: linux
</system-reminder>
<system-reminder>
You are powered by the model named Test.
</system-reminder>
<system-reminder>
The following deferred tools are now available via ToolSearch.
WebFetch
</system-reminder>
<system-reminder>
Available agent types for the Agent tool:
- scout: looks around
</system-reminder>
<system-reminder>
The following skills are available for use with the Skill tool:
- init
</system-reminder>
<system-reminder>
<total_tokens>180000 tokens left</total_tokens>
</system-reminder>
<system-reminder>
Today's date is 2026-09-01.
</system-reminder>
Never push to main. Count the apples in src/orchard/apples.py.\
""",
                by_person=True,
                said="Never push to main. Count the apples in src/orchard/apples.py.",
                context="agents+date+deferred_tools+environment+model+skills",
            ),
            View(
                kind=ItemKind.CALL,
                role=Role.ASSISTANT,
                text="""\
I will look.
{"command":"wc -l src/orchard/apples.py"}
{"file_path":"/srv/orchard/README.md","limit":20}\
""",
                opens=("toolu_1", "toolu_2"),
                tool="Bash",
                calls=(
                    ToolCall(id="toolu_1", name="Bash", arguments='{"command":"wc -l src/orchard/apples.py"}'),
                    ToolCall(id="toolu_2", name="Read", arguments='{"file_path":"/srv/orchard/README.md","limit":20}'),
                ),
                words="I will look.",
            ),
            View(
                kind=ItemKind.OUTPUT,
                role=Role.TOOL,
                text="""\
42 src/orchard/apples.py

<system-reminder><total_tokens>170000 tokens left</total_tokens></system-reminder>
# Orchard\
""",
                closes=("toolu_1", "toolu_2"),
                outputs=(
                    ToolOutput(
                        call_id="toolu_1",
                        text="""\
42 src/orchard/apples.py

<system-reminder><total_tokens>170000 tokens left</total_tokens></system-reminder>\
""",
                        is_error=False,
                    ),
                    ToolOutput(call_id="toolu_2", text="# Orchard"),
                ),
                images=1,
                by_person=True,
                said="Use tabs, not spaces.",
            ),
            View(kind=ItemKind.MESSAGE, role=Role.ASSISTANT, text="There are 42."),
            View(
                kind=ItemKind.MESSAGE,
                role=Role.USER,
                text="Grüße an alle; weiter.",
                by_person=True,
                said="Grüße an alle; weiter.",
            ),
            View(
                kind=ItemKind.MESSAGE,
                role=Role.USER,
                text="""\
<system-reminder>
[SYSTEM NOTIFICATION - NOT USER INPUT]
A background task ended.
</system-reminder>\
""",
            ),
            View(kind=ItemKind.REASONING, role=Role.ASSISTANT),
        ]
    )


def test_a_session_with_system_messages_in_its_history() -> None:
    """They are pinned by what they tell, except where they pass on a person."""
    assert views("system_message_in_history") == snapshot(
        [
            View(
                kind=ItemKind.MESSAGE,
                role=Role.USER,
                text="""\
<system-reminder>
# gitStatus
This is the git status at the start of the conversation.
branch: main
</system-reminder>
<system-reminder>
Attribution for git commits and pull requests: none.
</system-reminder>
Fix the fence.\
""",
                by_person=True,
                said="Fix the fence.",
                context="attribution+git_status",
            ),
            View(
                kind=ItemKind.MESSAGE,
                role=Role.SYSTEM,
                text="""\
# Environment
 - Primary working directory: /srv/orchard

Available agent types for the Agent tool:
- scout

Today's date is 2026-09-01.\
""",
                context="system:agents+date+environment",
            ),
            View(
                kind=ItemKind.CALL,
                role=Role.ASSISTANT,
                text='{"command":"ls fence"}',
                opens=("toolu_a",),
                tool="Bash",
                calls=(ToolCall(id="toolu_a", name="Bash", arguments='{"command":"ls fence"}'),),
            ),
            View(
                kind=ItemKind.OUTPUT,
                role=Role.TOOL,
                closes=("toolu_a",),
                outputs=(ToolOutput(call_id="toolu_a", text="", is_error=True),),
            ),
            View(
                kind=ItemKind.MESSAGE,
                role=Role.SYSTEM,
                text="""\
The user sent a new message while you were working:
Leave the gate alone.

This is how Claude Code surfaces it.\
""",
                by_person=True,
                said="Leave the gate alone.",
            ),
            View(kind=ItemKind.MESSAGE, role=Role.ASSISTANT, text="Done."),
        ]
    )


def test_a_later_system_message_is_pinned_by_its_words() -> None:
    """One that tells nothing known is only ever equal to itself."""
    assert views("leading_system") == snapshot(
        [
            View(kind=ItemKind.MESSAGE, role=Role.USER, text="Hello", by_person=True, said="Hello"),
            View(kind=ItemKind.MESSAGE, role=Role.SYSTEM, text="Later rule.", context="system:6fe692e1cf45e79b"),
        ]
    )


def test_tools_of_the_provider_and_unknown_blocks() -> None:
    """A call answered in its own message is neither opened nor closed; one answered in the next message binds the two."""
    assert views("server_tools") == snapshot(
        [
            View(
                kind=ItemKind.MESSAGE,
                role=Role.USER,
                text="""\
Pears
Pears ripen in autumn.
Plums
https://fruit.example/plums
Plums are blue.
file_1
What ripens when?\
""",
                images=1,
                by_person=True,
                said="What ripens when?",
            ),
            View(
                kind=ItemKind.MESSAGE,
                role=Role.ASSISTANT,
                text="""\
Let me search.
In August.
{"query":"plum season"}
{"litres":1.5}
Season
https://fruit.example/s
watered\
""",
            ),
            View(kind=ItemKind.MESSAGE, role=Role.USER, text="Run it.", by_person=True, said="Run it."),
            View(
                kind=ItemKind.CALL,
                role=Role.ASSISTANT,
                text='{"code":"open(\'plums.csv\')"}',
                opens=("srvtoolu_2",),
                tool="code_execution",
            ),
            View(
                kind=ItemKind.MESSAGE,
                role=Role.ASSISTANT,
                text="""\
Three.
{"url":"https://fruit.example/p"}
3 plums
https://fruit.example/p
Peeling
Peel first.
max_uses_exceeded\
""",
                closes=("srvtoolu_2", "srvtoolu_9"),
            ),
            View(kind=ItemKind.MESSAGE, role=Role.USER, text="Go on", by_person=True, said="Go on"),
            View(kind=ItemKind.MESSAGE, role=Role.ASSISTANT, text="Earlier: plums."),
            View(kind=ItemKind.OPAQUE, role=Role.ASSISTANT),
            View(kind=ItemKind.OPAQUE, role=Role.USER),
            View(kind=ItemKind.OPAQUE, role=Role.ASSISTANT),
            View(kind=ItemKind.OPAQUE, role=Role.USER),
        ]
    )


def test_traces_of_the_client_are_no_persons_words() -> None:
    """Commands, notices, interruptions, summaries and reminders are the client's; what stands beside them is the person's."""
    assert views("client_traces") == snapshot(
        [
            View(
                kind=ItemKind.MESSAGE,
                role=Role.USER,
                text="""\
This session is being continued from a previous conversation that ran out of context.

Summary:
1. Plums.
<system-reminder>
# gitStatus
clean
</system-reminder>\
""",
                context="client_summary",
            ),
            View(
                kind=ItemKind.MESSAGE,
                role=Role.USER,
                text="""\
<command-name>/clear</command-name>
            <command-message>clear</command-message>
            <command-args></command-args>\
""",
            ),
            View(kind=ItemKind.MESSAGE, role=Role.USER, text="<local-command-stdout>Bye</local-command-stdout>"),
            View(
                kind=ItemKind.MESSAGE,
                role=Role.USER,
                text="""\
<command-message>fix is running…</command-message>
<command-name>/fix</command-name>
<command-args>issue 12, but never touch the schema</command-args>\
""",
                by_person=True,
                said="issue 12, but never touch the schema",
            ),
            View(kind=ItemKind.MESSAGE, role=Role.USER, text="<bash-stdout>a.txt</bash-stdout><bash-stderr></bash-stderr>"),
            View(kind=ItemKind.MESSAGE, role=Role.USER, text="[Request interrupted by user]"),
            View(
                kind=ItemKind.OUTPUT,
                role=Role.TOOL,
                text="The user doesn't want to proceed.",
                closes=("toolu_x",),
                outputs=(ToolOutput(call_id="toolu_x", text="The user doesn't want to proceed.", is_error=True),),
            ),
            View(
                kind=ItemKind.MESSAGE,
                role=Role.USER,
                text="""\
[SYSTEM NOTIFICATION - NOT USER INPUT]
<task-notification><status>done</status></task-notification>\
""",
            ),
            View(
                kind=ItemKind.MESSAGE,
                role=Role.USER,
                text="Caveat: The messages below were generated by the user while running local commands.",
            ),
            View(
                kind=ItemKind.MESSAGE,
                role=Role.USER,
                text="""\
<system-reminder>
As you answer the user's questions, you can use the following context:
# claudeMd
Always run the linter.
</system-reminder>\
""",
                context="claude_md",
            ),
            View(
                kind=ItemKind.MESSAGE,
                role=Role.USER,
                text="""\
<system-reminder>
Note: a.py was modified.
</system-reminder>
Rename a.py to b.py.
<system-reminder>
The date has changed. Today's date is 2026-09-02.
</system-reminder>\
""",
                by_person=True,
                said="Rename a.py to b.py.",
                context="date",
            ),
        ]
    )


def test_no_cut_comes_between_a_paused_call_and_its_result() -> None:
    """The provider would refuse one half of them alone."""
    seen = views("server_tools")
    assert 4 not in find_boundaries(seen)
    assert (find_open_calls(seen), find_orphans(seen)) == ([], ["srvtoolu_9"])
