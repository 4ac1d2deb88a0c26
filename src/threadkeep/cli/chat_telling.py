"""A turn as a person sees it while it happens, and how full the window is after it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Protocol, assert_never

from rich.text import Text

from threadkeep.cli.cleaning import clean, one_line
from threadkeep.cli.figures import share
from threadkeep.cli.output import print_json
from threadkeep.cli.screen import Screen
from threadkeep.client import Window
from threadkeep.session import Answer, Asked, Called, Compacted, Event, Returned, Said, Session, Trouble

CALL_CHARS = 160
RETURNED_CHARS = 120


class Teller(Protocol):
    """Whoever tells of turns."""

    def hear(self, event: Event) -> None:
        """Take what happens in a turn."""
        ...

    def turn_over(self, session: Session, answer: Answer, window: Window) -> None:
        """Take how a turn ended, and the window it leaves."""
        ...


class TerminalTeller:
    """Writes words as they come; thoughts and tools are dim. Where nobody looks on, the answer alone."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._looks_on = screen.console.is_terminal
        self._at_line_start = True
        self._in_thought = False
        self._spent_usd = 0.0

    def hear(self, event: Event) -> None:
        match event:
            case Said():
                self._say(event)
            case Asked():
                if event.attempt > 1:
                    self._aside(f"no answer; asking again ({event.attempt})", "yellow")
            case Called():
                self._aside(f"{event.call.name} {event.call.arguments}"[:CALL_CHARS], "cyan")
            case Returned():
                style = "red" if event.failed else "dim"
                self._aside(f"  {one_line(event.text, limit=RETURNED_CHARS)}", style)
            case Compacted():
                self._aside(f"compacted: checkpoint #{event.checkpoint}, the window has {event.tokens:,} tokens now", "magenta")
            case Trouble():
                self._aside(event.text, "yellow")
            case Answer():
                self.end_line()
                if event.ending != "finished":
                    self._aside("(it ran out of room)" if event.ending == "length" else "(it would not answer)", "yellow")
            case _:
                assert_never(event)

    def turn_over(self, session: Session, answer: Answer, window: Window) -> None:
        """Print the context meter, and what it cost where the provider says so."""
        self._spent_usd += answer.cost_usd or 0.0
        if self._looks_on:
            tokens, limit = window.pressure.tokens, window.pressure.limits.hard
            cost = f"  ${answer.cost_usd:.4f}, ${self._spent_usd:.4f} so far" if answer.cost_usd is not None else ""
            self._screen.bar("", tokens, of=limit, caption=f"{share(tokens, limit)} of {limit:,} tokens{cost}", style="dim")

    def end_line(self) -> None:
        """Begin a new line, if words stand on this one."""
        if not self._at_line_start:
            self._write("\n", "")
        self._in_thought = False

    def _say(self, said: Said) -> None:
        if said.is_thought and not self._looks_on:
            return
        if said.is_thought != self._in_thought:
            self.end_line()
            self._in_thought = said.is_thought
        self._write(clean(said.text), "dim italic" if said.is_thought else "")

    def _aside(self, text: str, style: str) -> None:
        self.end_line()
        if self._looks_on:
            self._screen.cut_line((text, style))

    def _write(self, text: str, style: str) -> None:
        if text:
            self._screen.console.print(Text(text, style), end="", soft_wrap=True)
            self._screen.console.file.flush()
            self._at_line_start = text.endswith("\n")


class JsonTeller:
    """Prints one JSON object a turn."""

    def hear(self, event: Event) -> None:
        """Nothing is told before a turn is over."""

    def turn_over(self, session: Session, answer: Answer, window: Window) -> None:
        thread = {"thread": session.thread.id, "model": session.model.name}
        print_json({**thread, **asdict(answer), "tokens": window.pressure.tokens, "checkpoint": window.checkpoint})
