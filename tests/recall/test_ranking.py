"""Which text answers, told from the texts alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.recall.recall import Candidate, Ranked, Ranking

FILLER = "nothing to see here. " * 20


def text(said: str, *, by_person: bool = False, context: str = "") -> Candidate:
    return Candidate(text=said, by_person=by_person, context=context)


def best(candidates: list[Candidate], query: str) -> list[int]:
    return [each.number for each in Ranking(candidates, query).select_best(len(candidates))]


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (text("the relay listens on 4711"), text("the relay is old. " + FILLER + "it listens well")),
        (text("relay on 4711", by_person=True), text("relay on 4712")),
        (text("relay 4711"), text("prerelaying 4711")),
        (text("4711", context="where does the relay listen"), text("4712", context="nothing")),
        (text("relay on 4711"), text(" ".join(["relay on 4712", *["word"] * 400]))),
    ],
)
def test_what_stands_together_in_few_words_of_a_person_answers_best(better: Candidate, worse: Candidate) -> None:
    """Whichever comes first, the better one is ranked first."""
    other = [text(f"some text about item {number}") for number in range(6)]
    query = "Where does the relay listen?"
    assert best([better, worse, *other], query)[0] == 0
    assert best([worse, better, *other], query)[0] == 1


def test_a_rare_word_outweighs_common_ones() -> None:
    """Words that most candidates hold tell them apart the least."""
    common = [text("the job of the worker is done") for _ in range(8)]
    assert best([*common, text("zanzibar")], "is the job of the worker in zanzibar done?")[0] == 8


def test_of_equals_the_last_given_comes_first() -> None:
    """Where two say the same, the later one is what holds."""
    assert best([text("the port is 4711"), text("the port is 4712")], "which port?") == [1, 0]


def test_a_text_that_shares_no_word_is_no_answer() -> None:
    """It is left out, not ranked last."""
    assert best([text("nothing of the kind"), text("the port is 4711")], "which port?") == [1]


def test_the_place_is_where_the_answering_statement_begins() -> None:
    """Marks and capitals move nothing."""
    said = "Åpen İstanbul. Über alles.\nThe PORT is 4711.\nEnd."
    (found,) = Ranking([text(said)], "which port?").select_best(1)
    assert said[found.at :].startswith("The PORT")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(alphabet="abc dé配置. \n", max_size=60), max_size=12),
    st.text(alphabet="abc dé配置?", max_size=20),
    st.data(),
)
def test_a_short_list_is_the_beginning_of_a_long_one(texts: list[str], query: str, data: st.DataObject) -> None:
    """Looking at fewer candidates because the rest cannot win never changes who wins."""
    ranking = Ranking([text(said) for said in texts], query)
    everything: list[Ranked] = ranking.select_best(len(texts) or 1)
    limit = data.draw(st.integers(min_value=1, max_value=12))
    assert [each.score for each in ranking.select_best(limit)] == [each.score for each in everything[:limit]]
