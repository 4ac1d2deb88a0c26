"""What a dialect must make of answers, its provider's and its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Final

from threadkeep.dialects import Answer, Dialect, Reply
from threadkeep.testing.dialect_samples import ODD_BYTES, DialectSamples
from threadkeep.testing.store_facts import expect

SPOKEN: Final = ("done", "", 'two\nlines, "quoted"\r\n', "\u2028 \u0085 端口 🙂", "data: [DONE]\n\nevent: x")


def chunking_does_not_matter(samples: DialectSamples) -> None:
    """Any cut, within a character or a line end too, and any line end gives the same reply; its end is seen."""
    cuts = Random(4)
    for sample in samples.streams:
        for eol in (b"\n", b"\r", b"\r\n"):
            stream = sample.stream.replace(b"\n", eol)
            for size in (1, 2, 7, len(stream)):
                expect(
                    _fed(samples.dialect, stream, range(0, len(stream), size)),
                    (sample.reply, sample.ended),
                    "a stream is its bytes",
                )
            for _ in range(20):
                at = sorted(cuts.choices(range(len(stream)), k=9))
                expect(_fed(samples.dialect, stream, at), (sample.reply, sample.ended), "a stream is its bytes")


def readers_survive_anything(samples: DialectSamples) -> None:
    """Cut off, garbled or no stream at all: nothing raises, and what it is read as does not depend on the cuts."""
    dialect, luck = samples.dialect, Random(5)
    noise = (b"\n\n", b"data:", b"\xff", b'"', b"}", b"[" * 3_000, rb"\ud83d", b"null", b"-1", b"data: {}\n\n")
    for sample in samples.streams:
        for _ in range(150):
            at, stop = sorted(luck.choices(range(len(sample.stream)), k=2))
            garbled = sample.stream[:at] + luck.choice(noise) + sample.stream[luck.choice((at, stop)) :][: luck.randrange(4_000)]
            found = _fed(dialect, garbled, range(0, len(garbled), 13))
            expect(found, _fed(dialect, garbled, ()), "a garbled stream is read the same however it is cut")
            expect([item for item in found[0].items if not dialect.canonical(item)], [], "every item can be seen")
            whole = dialect.wire.read_reply(garbled[:600])
            expect(whole.outcome if whole.outcome != "failed" else "cut", "cut", "a stream is no whole answer")
    for raw in ODD_BYTES:
        expect(_fed(dialect, raw, ())[0], Reply(), "what is no stream says nothing")
        dialect.wire.read_reply(raw)


def answers_read_back(samples: DialectSamples) -> None:
    """What the gateway says by itself reads like a provider's answer, streamed or not; an error reads as a failure."""
    dialect = samples.dialect
    for text in SPOKEN:
        answer = Answer(text=text, response_id="r_1", message_id="m_1", model="m", created_at=17)
        streamed, ended = _fed(dialect, dialect.wire.render_answer_stream(answer), ())
        whole = dialect.wire.read_reply(dialect.wire.render_answer(answer))
        expect((streamed.outcome, whole.outcome, ended), ("completed", "completed", True), "an answer has its end")
        expect([dialect.view(item).text for item in streamed.items], [text], "an answer says its text")
        forms = [[dialect.canonical(item) for item in reply.items] for reply in (streamed, whole)]
        expect(forms[0], forms[1], "both forms of an answer say the same")
    for status in (400, 404, 413, 429, 500, 502):
        error = dialect.wire.render_error(status, "some_code", 'what, "which"\n')
        told = json.loads(error)["error"]
        expect((told["message"], told["code"]), ('what, "which"\n', "some_code"), "an error says what and which")
        expect(dialect.wire.read_reply(error), Reply(outcome="failed"), "an error is no answer")


def _fed(dialect: Dialect, stream: bytes, cuts: Sequence[int]) -> tuple[Reply, bool]:
    """Return what a reader makes of a stream cut at these places, and whether it saw its end."""
    reader = dialect.wire.make_reader()
    ended = [reader.feed(stream[start:stop]) for start, stop in pairwise([0, *cuts, len(stream)])]
    if ended != sorted(ended):
        raise AssertionError("an end that was seen stays seen")
    return reader.reply, any(ended)


WIRE_CHECKS: tuple[Callable[[DialectSamples], None], ...] = (
    chunking_does_not_matter,
    readers_survive_anything,
    answers_read_back,
)
