"""What the user asks for in the story: upkeep, investigations, reviews, documentation."""

from __future__ import annotations

from benchmarks.story.service_tasks import Ask, Episode

UPKEEP = (
    Episode(
        "tests",
        (
            Ask(
                "CI has been red since last night and nobody admits to anything. What broke?",
                "ci log trace",
                "A package moved a minor version overnight; the lock file is not used in the integration job.",
            ),
            Ask(
                "Use the lock there as well and run the job again.",
                "patch ci",
                "It installs from the lock. One test still fails, and that one is ours.",
            ),
            Ask(
                "Which one, and since when?",
                "fail log",
                "The sweep of expired {n}s. It passes alone and fails after the import tests, since the shared fixture was added.",
            ),
            Ask(
                "Give it a fixture of its own.",
                "read patch pass ci",
                "Own fixture, own shop. Ten runs in random order are green.",
            ),
        ),
    ),
    Episode(
        "store",
        (
            Ask(
                "mypy in strict mode for the store package. Start with a count, then the easy half.",
                "types read patch types",
                "The easy half is done: mostly missing parameters of generic types.",
            ),
            Ask(
                "And the hard half?",
                "types read patch patch types pass",
                "Three were real: a row that can be None was used as if it could not. Each has a test now.",
            ),
            Ask("Anything you silenced?", "grep diff", "Two ignores, both with a reason and a link to the stub that is wrong."),
        ),
    ),
    Episode(
        "docs",
        (
            Ask(
                "The page about {n}s describes last year's behaviour. Compare it with the code and list the lies.",
                "read beside grep",
                "Five statements are wrong, one of them dangerous: it says that closing can be undone.",
            ),
            Ask(
                "Correct them, and keep the page shorter than it was.",
                "patch diff",
                "Corrected and a third shorter. The dangerous sentence is gone.",
            ),
            Ask(
                "{w} asks for a diagram of the states. Can you do one that survives a code review?",
                "beside patch",
                "There is one in text form, next to the enum it describes; a test compares the two.",
            ),
        ),
    ),
    Episode(
        "config",
        (
            Ask(
                "I have no overview of what runs where any more. Which machines, which builds, which shops?",
                "hosts containers sockets",
                "Three builds are in the field; two shops still run the one from before the split.",
            ),
            Ask(
                "Which of those two is riskier to upgrade?",
                "hosts journal query",
                "{s}: it has unsent rows in its outbox, and the new build reads the outbox differently.",
            ),
            Ask(
                "How would you drain it without closing the shop?",
                "read beside worker",
                "Run both readers for an hour; rows carry the reader's version, so neither takes the other's.",
            ),
        ),
    ),
    Episode(
        "api",
        (
            Ask(
                "Please review the branch of {w}. I care about the {n} endpoints, style I can see myself.",
                "diff read log",
                "Two remarks: the page size is not bounded, and the cursor can be forged to skip rows of another shop.",
            ),
            Ask(
                "How would somebody forge it?",
                "read probe",
                "It is base64 of an id. Signing it, or checking the shop again on read, both close it.",
            ),
            Ask(
                "check again on read, I do not want another key to look after",
                "patch fail patch pass",
                "The shop is part of the condition now, whatever the cursor says. A forged one gives an empty page.",
            ),
            Ask(
                "Thanks. Write the review comment for me, friendly.",
                "diff",
                "Written to var/tmp/review.md: thanks first, then the cursor, then the page size, with the test to copy.",
            ),
        ),
    ),
    Episode(
        "worker",
        (
            Ask(
                "How long do {n} jobs wait before somebody takes them? I only have a feeling, I want figures.",
                "query worker profile",
                "Median under a second, p99 four minutes. The long ones all waited behind imports.",
            ),
            Ask(
                "Would a second queue help?",
                "read explain",
                "Yes, more than more workers: imports hold a slot for minutes, and there are only six slots.",
            ),
            Ask(
                "Try it on the replay.",
                "patch pass worker load",
                "p99 is nine seconds on the same replay. Imports take a tenth longer.",
            ),
        ),
    ),
    Episode(
        "tests",
        (
            Ask(
                "The suite takes eleven minutes, that is a coffee too many. Where does the time go?",
                "profile coverage pass",
                "A third is database setup, and a quarter is one module that sleeps.",
            ),
            Ask("First the sleeping one.", "read patch pass", "It waits for an event instead. Four minutes became nine seconds."),
            Ask(
                "Now the setup.",
                "beside patch pass",
                "One template database, cloned per worker. The suite takes just under four minutes.",
            ),
            Ask(
                "Is anything covered less than before?",
                "coverage",
                "No. Two branches are covered that were not, because the sleeping test had been skipped half of the time.",
            ),
        ),
    ),
    Episode(
        "migrations",
        (
            Ask(
                "Dry run of all pending migrations against a copy of {s}, and tell me which ones lock a table for longer than a second.",
                "migrate schema query",
                "One: it rewrites {n}s to change a type. Everything else is instant or concurrent.",
            ),
            Ask(
                "Turn that one into add, copy, swap.",
                "read patch migrate",
                "Three steps, each short. The swap needs a lock for some forty milliseconds.",
            ),
            Ask(
                "What if it dies in the middle of the copy?",
                "migrate query",
                "It goes on where it stopped; I killed it twice to be sure, and the checksums agree.",
            ),
        ),
    ),
    Episode(
        "cli",
        (
            Ask(
                "Support keeps asking for a way to see what happened to one {n}. Build `history`, read-only.",
                "help read beside schema",
                "The events are all there; what is missing is who did it, for changes that came through the import.",
            ),
            Ask(
                "Show 'import' and the file name in that case.",
                "patch fail patch pass",
                "It does, with the line number of the file where we have it.",
            ),
            Ask(
                "Print me one from {s} so that I can show it around.",
                "query rows",
                "Saved under var/tmp/history.txt. It is a good one: two tills, an import and a manager.",
            ),
        ),
    ),
    Episode(
        "sync",
        (
            Ask(
                "Dependencies: what is old, what is risky, what can go?",
                "packages grep",
                "Two can go, nobody imports them. One is risky: its new major drops the API we build labels with.",
            ),
            Ask("Remove the two.", "patch pass packages", "Removed, the lock is smaller by eleven packages."),
            Ask(
                "For the risky one, try the new major on a branch and count what breaks.",
                "fail types",
                "Fourteen call sites, all the same renamed argument. Half a day, mostly looking at labels.",
            ),
        ),
    ),
    Episode(
        "api",
        (
            Ask(
                "Somebody is hammering /{n}s from outside. Who, how often, and do we answer politely?",
                "access worker query",
                "One client, four times a second, with an expired key. We answer 401 and compute the whole page first.",
            ),
            Ask(
                "Check the key before the work.",
                "read patch pass load",
                "The check comes first now; a refused request costs a fiftieth of what it did.",
            ),
            Ask("Does the 429 carry Retry-After?", "probe read patch pass", "It does now, in seconds, rounded up."),
        ),
    ),
    Episode(
        "pricing",
        (
            Ask(
                "Explain to me how a {n} gets its price. Follow one real row from {s} through the code.",
                "query read beside rows",
                "List price, then the tier, then the customer's own discount, then tax; each step is recorded, so the receipt can explain itself.",
            ),
            Ask(
                "And where does the currency get decided?",
                "grep read",
                "By the shop, once, when the basket is opened. A price in another currency is refused later on, not converted.",
            ),
            Ask(
                "that surprises me. since when?",
                "log diff",
                "Since the Polish shop opened. Before, it converted with the day's rate, and returns did not add up.",
            ),
        ),
    ),
    Episode(
        "config",
        (
            Ask(
                "Staging feels slow today. Before you blame the network, look at everything else.",
                "containers journal sockets load",
                "It is the broker: one consumer is stuck and every publisher waits for its acknowledgement.",
            ),
            Ask("Which consumer?", "sockets worker", "The label worker of {s}, since its printer went away at noon."),
            Ask(
                "A dead printer must not be able to do that. Ideas?",
                "read beside",
                "A bounded queue for each printer, and dropping to the fallback after it fills. The code for the fallback exists.",
            ),
            Ask(
                "Do it.",
                "patch fail patch pass",
                "Each printer has its own bounded queue. With the printer unplugged the rest goes on; its labels come out at the fallback.",
            ),
        ),
    ),
)

FOLLOW_UPS = (
    Ask("ok, go on", "beside pass", "Went on with the next one on the list: same change, same tests, all green."),
    Ask("hm, run it again, I want to be sure it is not luck", "pass", "Five more runs, five times green."),
    Ask(
        "Show me the diff before I go into the meeting.",
        "diff",
        "That is all of it. The only part worth a second look is the order of the two calls.",
    ),
    Ask(
        "I am back. Where were we?",
        "plan log diff",
        "The change is in, the tests pass; what is open is the page in the manual and a look at {s}.",
    ),
    Ask(
        "{w} says it works on her machine. Does it on yours?",
        "fail trace",
        "It does not here, and I see why: she has a newer printer profile.",
    ),
    Ask(
        "Can you look at that from the other end, starting from the table?",
        "schema query read",
        "From the table it is plainer: the row is written twice, with the same version.",
    ),
    Ask("Too clever. Simpler, please.", "read patch pass", "Simpler now: one loop, one early return, nine lines fewer."),
    Ask("Commit.", "commit", "Committed."),
    Ask(
        "What is in the error tracker this afternoon?",
        "trace trace",
        "Two new ones, both about {n}s and both from {s}. The first follows from the second.",
    ),
    Ask(
        "Nothing urgent, but why are there two files with almost the same name?",
        "ls log grep",
        "One is the old importer, kept for the shop that still sends the old format.",
    ),
    Ask(
        "Have you looked at the access log as well?",
        "access",
        "I have now: the retries come in pairs, one second apart, so it is the till and not the proxy.",
    ),
    Ask(
        "Write that down somewhere people will find it.",
        "beside patch",
        "It is in the manual's page on {n}s, under the heading people land on from the alert.",
    ),
    Ask(
        "Does that hold for {s}, too? They have the oldest data.",
        "query rows",
        "It holds. They have three rows from before the rule, and those were closed long ago.",
    ),
    Ask(
        "Lunch. Run everything meanwhile and leave me a summary.",
        "pass types lint coverage",
        "All tests pass, the types are clean, two lint findings are left in files we did not touch.",
    ),
    Ask(
        "wait, that number cannot be right",
        "query explain",
        "You are right, it counted closed rows as well. The real one is about a third of it.",
    ),
    Ask("And the worker's log?", "worker", "Quiet, apart from two deferrals that resolved themselves."),
    Ask("Let us do the same for the other endpoint.", "read patch pass", "Done in the same way; the tests share one table now."),
    Ask("Undo the last edit, I changed my mind.", "diff read", "Taken back. The file is what it was this morning."),
)
