"""What the user asks for in the story, one episode after another: service work.

An episode is a few turns about one noun. `{n}` is that noun, `{p}` the file it is about, `{s}` a shop, `{w}` a person.
The recipe names the steps of the turn in the toolbox's words.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ask:
    """One turn's request, the steps it leads to, and what the agent says in the end."""

    text: str
    recipe: str
    answer: str


@dataclass(frozen=True, slots=True)
class Episode:
    """Turns that belong together; `area` is the part of the checkout they are about."""

    area: str
    asks: tuple[Ask, ...]


SERVICE = (
    Episode(
        "api",
        (
            Ask(
                "Morning. Two tills in {s} managed to book the same {n} at 08:12. Find out how that is possible before you change anything.",
                "plan grep read trace",
                "Both tills read the row before either takes the lock. The window is small, but a slow disk makes it wide enough.",
            ),
            Ask(
                "Show me that with a test first.",
                "beside fail",
                "There is now a test that opens two tills against one {n}; it fails the way {s} saw it.",
            ),
            Ask(
                "Good. Now the smallest fix that makes it pass.",
                "read patch pass diff",
                "The lock is taken before the read. One line moved, one line added; the new test and its neighbours pass.",
            ),
            Ask(
                "Commit it on its own branch and tell me whether {p} has the same pattern anywhere else.",
                "commit grep beside",
                "Committed. The same order of read and lock appears twice more, both in paths that only a manager can reach.",
            ),
        ),
    ),
    Episode(
        "worker",
        (
            Ask(
                "The worker eats a job for a {n} and says nothing. Look at the log of the last hour and follow one of them.",
                "worker journal read",
                "It is deferred, then killed with the process, and its lease runs out after the sweep has already passed.",
            ),
            Ask(
                "why does the deferral not survive the restart?",
                "read grep query",
                "The attempt counter is written, the time is not. After a restart the job looks as if it had never been tried.",
            ),
            Ask(
                "Write the time with the counter, in the same statement.",
                "patch fail patch pass",
                "Both are in one update now. The first try broke the ordering test, because it compared against the old column; fixed as well.",
            ),
        ),
    ),
    Episode(
        "store",
        (
            Ask(
                "Listing open {n}s takes four seconds in {s}, everywhere else it is instant. I suspect the planner.",
                "explain schema query",
                "It is the planner: {s} has eleven times as many closed rows, and the partial index does not match the condition as written.",
            ),
            Ask(
                "What would the index have to look like?",
                "schema explain read",
                "The same columns, with `closed_at is null` spelled as the query spells it. The estimate drops from seconds to a few milliseconds.",
            ),
            Ask(
                "Write the migration, run it on the scratch database and show me the new plan.",
                "beside patch migrate explain",
                "Applied. The plan uses the new index and reads a few dozen pages instead of the whole table.",
            ),
            Ask(
                "Run the load script against it too, thirty seconds is plenty.",
                "load access",
                "p99 fell to a seventh of what it was. The slowest requests left are the exports.",
            ),
        ),
    ),
    Episode(
        "pricing",
        (
            Ask(
                "A customer in {s} was charged one cent too much on a {n} with three lines. Reproduce it with the figures below.",
                "rows read fail",
                "Reproduced: each line is rounded, then the sum is rounded again.",
            ),
            Ask(
                "Round once, at the end, and keep the per-line figures for display.",
                "patch pass coverage",
                "Totals are rounded once. The lines still show two decimals; a footnote in the receipt template says so.",
            ),
            Ask(
                "Does the nightly report use the same function?",
                "grep beside export",
                "It has its own copy from two years ago. The copy rounds down.",
            ),
            Ask(
                "Then make it use ours and check last week's export for differences.",
                "patch pass export query",
                "Done. Forty-one rows of last week differ, all by one cent, all in our favour.",
            ),
        ),
    ),
    Episode(
        "cli",
        (
            Ask(
                "`quillback {n} list` prints nonsense when a name has an umlaut. Fix the column widths.",
                "help read patch pass",
                "Width is counted in cells, not in bytes. Names with umlauts, and the wide ones from the Asian suppliers, line up.",
            ),
            Ask(
                "While you are there: --json should print one object a line, it prints a list today.",
                "read patch fail patch pass",
                "One object a line now. One fixture expected the list and was changed with it.",
            ),
            Ask(
                "Does the help text still tell the truth?",
                "help grep",
                "Two options were described that have been gone for a year. Both removed, one default corrected.",
            ),
        ),
    ),
    Episode(
        "sync",
        (
            Ask(
                "The feed for {n}s was rejected by the supplier with 'bad digest'. {w} says nothing changed on their side. Who is right?",
                "worker trace read",
                "We are the ones who changed: keys are sorted since last month, and their digest is over the order we used before.",
            ),
            Ask(
                "ok. What is the least invasive way out?",
                "grep read beside",
                "Keep the sorted form for ourselves and sign the order they expect; both are already there, only one call has to change.",
            ),
            Ask(
                "Do that, with a test that has their example file in it.",
                "patch pass diff",
                "Their example verifies. The test holds the file byte for byte.",
            ),
        ),
    ),
    Episode(
        "api",
        (
            Ask(
                "I want conditional requests on {n}s: ETag out, If-Match in, 412 when they differ.",
                "plan read beside probe",
                "The version column is already there, so the tag can be the version. I would leave weak tags out.",
            ),
            Ask(
                "Agreed, go ahead.",
                "patch patch fail patch pass",
                "In place with seven tests. A missing If-Match is still accepted, as the old tills never send one.",
            ),
            Ask(
                "Describe it in the API description, too.",
                "beside patch lint",
                "Described for the three verbs it affects, with an example of the 412.",
            ),
            Ask(
                "What did the proxy do to the header in staging, does it survive?",
                "probe access",
                "It survives; the proxy weakens it only for compressed answers, and those we do not send.",
            ),
        ),
    ),
    Episode(
        "worker",
        (
            Ask(
                "Memory of the label worker climbs until the kernel shoots it. Here is the journal of {s}; have a look at the code that holds images.",
                "journal read profile",
                "Rendered labels are cached by their whole payload, and the payload has a timestamp in it. Nothing is ever found again.",
            ),
            Ask(
                "Cache by what is printed, not by when.",
                "patch pass",
                "The key is the label's content now, with a bound of two hundred entries.",
            ),
            Ask(
                "Let it run the replay for a while and compare.",
                "profile journal containers",
                "Flat after the first minute. The replay printed the same labels as before, byte for byte.",
            ),
        ),
    ),
    Episode(
        "store",
        (
            Ask(
                "Prepare to split the note out of {n}s into its own table; I want to see every reader first.",
                "grep beside grep schema",
                "Nine readers: four in the API, two in the worker, one report and two fixtures.",
            ),
            Ask(
                "Migration now, reading from both for one release.",
                "beside patch migrate",
                "The migration copies in batches and can be stopped anywhere; a view serves old readers meanwhile.",
            ),
            Ask(
                "And down again, please. I do not trust a way back nobody has walked.",
                "migrate query schema",
                "Walked both ways twice; row counts and a checksum over the notes agree.",
            ),
            Ask(
                "Nice. Move the API readers over.",
                "read patch patch pass types",
                "Four readers moved. The type checker found a fifth in a helper; moved as well.",
            ),
        ),
    ),
    Episode(
        "pricing",
        (
            Ask(
                "{w} wants tiered discounts on {n}s: from ten pieces, from fifty, from two hundred. Read what is there and propose the data, no code yet.",
                "read schema rows",
                "One row per tier with a lower bound, unique per list and bound. Upper bounds follow from the next row, so they cannot contradict it.",
            ),
            Ask(
                "Fine by me, build it.",
                "patch patch fail patch pass",
                "Tiers are read with the list, once per basket. An empty list behaves as today.",
            ),
            Ask(
                "What happens at exactly fifty?",
                "beside pass",
                "Fifty gets the fifty tier; there is a row for each edge in the table test.",
            ),
        ),
    ),
    Episode(
        "sync",
        (
            Ask(
                "Import of the stock file from {s} stops at the first bad line. It should carry on and collect what it could not read.",
                "read trace patch fail",
                "It carries on, but the count at the end is now wrong, because it counts lines and not rows.",
            ),
            Ask(
                "count rows then",
                "patch pass",
                "Fixed. The summary names the file, the rows taken and the lines refused, with their numbers.",
            ),
            Ask(
                "Can you feed it last year's worst file and see what it says?",
                "export worker",
                "It took all but six lines; the six have a comma where a point belongs.",
            ),
        ),
    ),
)
