"""Facts that only the agent states: in a final answer or between two tool calls.

Each is asked about twice: with words of the statement, and without any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.readers.questions import AGENT_OTHER, AGENT_SHARED, Question
from benchmarks.retention.blindness import stands
from benchmarks.story.session import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A sentence with a value `{v}`, and two questions about the value.

    `values` are alternatives of equal plausibility; a value with `#` has that many random digits.
    """

    said: str
    values: tuple[str, ...]
    same_words: str
    other_words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    """What is planted: whole final answers and interjections by turn, and the questions."""

    answers: dict[int, str]
    interjections: dict[int, str]
    turns: tuple[int, ...]
    questions: tuple[Question, ...]


# Facts are stated between these shares of the session, so that compactions and other work follow all of them.
BETWEEN = (0.06, 0.6)
FOUR = 4
MOST_DRAWS = 400

# One list a kind; a session draws one statement of each.
STATEMENTS: dict[str, tuple[Statement, ...]] = {
    "root cause": (
        Statement(
            said="The duplicates came from {v}; with that out of the way the totals agree again.",
            values=(
                "a retry without an idempotency key",
                "a trigger that fires twice on merge",
                "two workers reading one queue",
                "a cursor that restarts at every deploy",
            ),
            same_words="Where did the duplicates come from?",
            other_words="Why were some rows counted more than once?",
        ),
        Statement(
            said="Root cause found: the timeouts happen because {v}.",
            values=(
                "the pool hands out closed sockets",
                "name resolution blocks the event loop",
                "the proxy waits for a body that is never sent",
                "the certificate check asks a dead responder",
            ),
            same_words="What is the root cause of the timeouts?",
            other_words="Why did requests hang until they were given up on?",
        ),
        Statement(
            said="So it was {v} that made the service eat memory all night.",
            values=(
                "an unbounded cache of parsed templates",
                "a listener added on every reconnect",
                "log lines buffered until rotation",
                "a thread-local that outlives its request",
            ),
            same_words="What made the service eat memory all night?",
            other_words="What turned out to be the leak?",
        ),
    ),
    "decision": (
        Statement(
            said="I decided to store the timestamps as {v}, everything else needs a conversion somewhere.",
            values=("integer microseconds", "text with an offset", "two columns, day and second", "seconds as a decimal"),
            same_words="As what did the agent decide to store timestamps?",
            other_words="Which representation was chosen for points in time?",
        ),
        Statement(
            said="For the retries I went with {v}, the other schemes starve small tenants.",
            values=(
                "full jitter capped at one minute",
                "a fixed delay of nine seconds",
                "a token bucket per tenant",
                "doubling delays without a cap",
            ),
            same_words="Which scheme did the agent go with for retries?",
            other_words="How are failed attempts spaced out now?",
        ),
        Statement(
            said="Decision: the new module talks to the old one through {v}.",
            values=("a shared read-only view", "a unix socket", "files in a spool folder", "the existing message bus"),
            same_words="Through what does the new module talk to the old one, as decided?",
            other_words="What connects the two components after the redesign?",
        ),
    ),
    "ruled out": (
        Statement(
            said="I also tried {v}; it made no difference, so that is ruled out.",
            values=(
                "pinning the compiler to the previous release",
                "turning off link-time optimisation",
                "running the suite with one worker",
                "clearing the incremental build cache",
            ),
            same_words="What was tried, made no difference and is ruled out?",
            other_words="Which experiment need not be repeated because it did not help?",
        ),
        Statement(
            said="{v} is not the culprit: I swapped it and the failure stayed.",
            values=("The load balancer", "The object store client", "The clock source", "The serializer"),
            same_words="What is not the culprit, since the failure stayed after swapping it?",
            other_words="Which component was cleared of suspicion by replacing it?",
        ),
        Statement(
            said="Rewriting the query with {v} was a dead end, the planner ignores it.",
            values=("a lateral join", "a materialised subquery", "a partial index", "a window function"),
            same_words="Rewriting the query with what was a dead end?",
            other_words="Which approach did the optimiser refuse to use?",
        ),
    ),
    "job id": (
        Statement(
            said="The backfill runs in the background as job {v}; I will look at it when it is through.",
            values=("bf-####-n",),
            same_words="As which job does the backfill run in the background?",
            other_words="Under what number can one look up the historical data load?",
        ),
        Statement(
            said="I queued the long benchmark under run {v}.",
            values=("run/#####",),
            same_words="Under which run was the long benchmark queued?",
            other_words="How does one find the performance measurement that was started?",
        ),
        Statement(
            said="Reindexing was handed to the scheduler, ticket {v}.",
            values=("SCH#####",),
            same_words="Which ticket did the scheduler give to reindexing?",
            other_words="What reference belongs to the rebuilding of the search data?",
        ),
    ),
    "error id": (
        Statement(
            said="The crash is tracked as {v} from now on; every later trace is the same one.",
            values=("ERR-####-q",),
            same_words="As what is the crash tracked from now on?",
            other_words="Which identifier groups the identical stack dumps?",
        ),
        Statement(
            said="All of these warnings collapse into a single fingerprint, {v}.",
            values=("fp####c##",),
            same_words="Into which fingerprint do these warnings collapse?",
            other_words="What is the common signature of the repeated messages?",
        ),
        Statement(
            said="Upstream knows this failure; it is their bug {v}.",
            values=("UP-#####",),
            same_words="Which upstream bug is this failure?",
            other_words="Where do the library's maintainers follow our problem?",
        ),
    ),
    "setting": (
        Statement(
            said="I raised the prefetch count to {v}, below that the consumers idle.",
            values=("2##7", "3##1", "4##9", "5##3"),
            same_words="To what was the prefetch count raised?",
            other_words="How many messages may one worker now hold at once?",
        ),
        Statement(
            said="With the checkpoint interval at {v} seconds the spikes are gone, so I left it there.",
            values=("8##4", "9##2", "6##8", "7##6"),
            same_words="At how many seconds was the checkpoint interval left?",
            other_words="How often does the database now flush, after tuning?",
        ),
        Statement(
            said="The batch limit is {v} now; larger ones hit the lock timeout.",
            values=("1##50", "2##50", "3##50", "4##50"),
            same_words="What is the batch limit now?",
            other_words="How many entries go into one write at most?",
        ),
    ),
}


def plant_agent_facts(turns: Sequence[Turn], *, seed: int) -> AgentFacts:
    """Choose one statement of each kind and a turn for it. Half are final answers, half stand between tool calls."""
    rng = Random(f"{seed}:agent")
    low, high = (int(len(turns) * share) for share in BETWEEN)
    places = sorted(rng.sample(range(low, max(high, low + len(STATEMENTS))), len(STATEMENTS)))
    order = list(STATEMENTS.items())
    rng.shuffle(order)
    said = "\n".join((*(turn.user for turn in turns), *(step.output for turn in turns for step in turn.steps)))
    answers: dict[int, str] = {}
    interjections: dict[int, str] = {}
    questions: list[Question] = []
    for number, (place, (_, statements)) in enumerate(zip(places, order, strict=True)):
        statement = rng.choice(statements)
        right, *wrong = draw_values(statement.values, rng, apart_from=said)
        text = statement.said.format(v=right)
        if number % 2:
            interjections[place] = text
        else:
            answers[place] = f"{turns[place].answer} {text}"
        first, second, third = wrong
        for kind, question in ((AGENT_SHARED, statement.same_words), (AGENT_OTHER, statement.other_words)):
            questions.append(Question(kind=kind, text=question, right=right, wrong=(first, second, third)))
    return AgentFacts(answers=answers, interjections=interjections, turns=tuple(places), questions=tuple(questions))


def draw_values(values: Sequence[str], rng: Random, *, apart_from: str) -> list[str]:
    """Return four different values in random order, none of which stands in `apart_from`.

    Raises:
        ValueError: The session leaves no value of a pattern free.
    """
    drawn: dict[str, None] = {}
    for _ in range(MOST_DRAWS):
        pattern = values[len(drawn) % len(values)]
        value = "".join(str(rng.randrange(10)) if sign == "#" else sign for sign in pattern)
        if not stands(value, apart_from):
            drawn[value] = None
        if len(drawn) == FOUR:
            found = list(drawn)
            rng.shuffle(found)
            return found
    raise ValueError(f"the session leaves fewer than four values free of {', '.join(values)}; choose others")
