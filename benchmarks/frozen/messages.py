"""Builds the messages of users in this family: several requests at once, pastes, pages with a rule in the middle. Frozen.

Frozen: see the package's docstring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.frozen.lines import Domain, load_papers

_LEADS = ("", "", "ok. ", "hi again. ", "hmm, ", "right, ", "so: ", "when you are through with that: ", "morning! ")
_BRIDGES = ("\n", " ", "\n\n", "\nbtw ", " -- ", "\nwhile I think of it: ")
_TAILS = ("", "", "", "\n\nthx", "\n\nno rush", "\n\nback in an hour")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A sentence a user says in some turn; `last` ends the message, `buried` stands in the middle of something pasted."""

    turn: int
    text: str
    last: bool = False
    buried: bool = False


def build_message(ask: str, remarks: Sequence[Remark], *, rng: Random, domain: Domain) -> str:
    """Return the message; each remark stands in it word for word."""
    parts = [f"{rng.choice(_LEADS)}{ask}"]
    plain = [remark.text for remark in remarks if not remark.last and not remark.buried]
    if len(plain) > 2 and rng.random() < 0.5:
        parts.insert(rng.randrange(2), "\n".join(f"{at}) {text}" for at, text in enumerate(plain, start=1)))
    elif plain:
        run = plain[0]
        for text in plain[1:]:
            run += rng.choice(_BRIDGES) + text
        parts.insert(rng.randrange(2), run)
    parts += [_paper(remark.text, rng=rng, domain=domain) for remark in remarks if remark.buried]
    ends = [remark.text for remark in remarks if remark.last]
    return "\n\n".join(parts) + rng.choice(_TAILS) + "".join(f"\n\n{text}" for text in ends)


def _paper(rule: str, *, rng: Random, domain: Domain) -> str:
    """Return a long pasted text with a rule in the middle of a paragraph in the middle of it."""
    parts = load_papers()
    fill = {"w": rng.choice(domain.people), "d": rng.randrange(10)}
    sentences = [sentence.format(**fill) for sentence in rng.sample(parts.sentences, rng.randrange(12, len(parts.sentences)))]
    middle = len(sentences) // 2 + rng.randrange(-2, 3)
    sentences.insert(middle, rule)
    paragraphs = [" ".join(sentences[at : at + 4]) for at in range(0, len(sentences), 4)]
    head, closing = rng.choice(parts.heads).format(**fill), rng.choice(parts.closings).format(**fill)
    return "\n\n".join((rng.choice(parts.openings), head + paragraphs[0], *paragraphs[1:], closing))
