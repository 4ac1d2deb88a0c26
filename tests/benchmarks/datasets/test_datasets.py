"""Loaders for other people's conversations, on tiny ones of our own in their forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.datasets.formats import Conversation, Question, Said, load
from benchmarks.datasets.run import Looked, build_table, run_dataset
from threadkeep.errors import BadInput

LOCOMO = [
    {
        "sample_id": "ours-1",
        "conversation": {
            "speaker_a": "Una",
            "speaker_b": "Bo",
            "session_1_date_time": "1 May",
            "session_1": [
                {"speaker": "Una", "dia_id": "D1:1", "text": "I keep my kayak behind the boathouse."},
                {"speaker": "Bo", "dia_id": "D1:2", "text": "Mine is red.", "blip_caption": "a red kayak"},
            ],
            "session_2_date_time": "2 May",
            "session_2": [{"speaker": "Una", "dia_id": "D2:1", "text": "It rained."}],
        },
        "qa": [
            {
                "question": "Where is Una's kayak kept?",
                "answer": "behind the boathouse",
                "category": 4,
                "evidence": ["D1:1"],
            },
            {"question": "Which boats are there?", "answer": 2, "category": 1, "evidence": ["D1:1; D1:02", "D:2:1", "D"]},
            {"question": "Which car?", "adversarial_answer": "none", "category": 5, "evidence": []},
        ],
    }
]
LONGMEMEVAL = [
    {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "Which lamp did I buy?",
        "question_date": "2023/06/01 (Thu) 10:00",
        "answer": "a brass lamp",
        "answer_session_ids": ["answer_1"],
        "haystack_session_ids": ["answer_1", "filler_1"],
        "haystack_dates": ["2023/05/30 (Tue) 23:40", "2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [
            [
                {"role": "user", "content": "I bought a brass lamp.", "has_answer": True},
                {"role": "assistant", "content": "Nice.", "has_answer": False},
            ],
            [{"role": "user", "content": "Hello."}],
        ],
    },
    {
        "question_id": "q2_abs",
        "question_type": "multi-session",
        "question": "Which chair did I buy?",
        "answer": 0,
        "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [[{"role": "user", "content": "I bought a lamp.", "has_answer": True}]],
    },
]
OPENING = {
    "role": "user",
    "id": 0,
    "time_anchor": "March-15-2024",
    "index": "1,1",
    "question_type": "main_question",
    "content": "The mill opens at nine. ->-> 1,1",
}
CHAT = [{"batch_number": 1, "turns": [[OPENING, {"role": "assistant", "id": 1, "content": "Noted."}]]}]
PROBES = {
    "information_extraction": [{"question": "When does the mill open?", "answer": "nine", "source_chat_ids": [0]}],
    "knowledge_update": [
        {"question": "And now?", "answer": "ten", "source_chat_ids": {"original_info": [0], "updated_info": [7]}}
    ],
    "abstention": [{"question": "Who owns it?", "ideal_response": "not told"}],
}


def written(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def beam(folder: Path) -> Path:
    written(folder / "chat.json", CHAT)
    written(folder / "probing_questions" / "probing_questions.json", PROBES)
    return folder


def test_locomo_is_two_people_over_sessions(tmp_path: Path) -> None:
    """In the order of the sessions, with their dates; pictures by their caption; evidence, also where ids have slips in them."""
    assert load("locomo", written(tmp_path / "l.json", LOCOMO)) == [
        Conversation(
            id="ours-1",
            said=(
                Said(role="user", text="[1 May] Una: I keep my kayak behind the boathouse.", mark="D1:1"),
                Said(role="assistant", text="[1 May] Bo: Mine is red. (a red kayak)", mark="D1:2"),
                Said(role="user", text="[2 May] Una: It rained.", mark="D2:1"),
            ),
            questions=(
                Question(
                    text="Where is Una's kayak kept?",
                    answer="behind the boathouse",
                    kind="single-hop",
                    evidence=("D1:1",),
                ),
                Question(text="Which boats are there?", answer="2", kind="multi-hop", evidence=("D1:1", "D1:2", "D2:1")),
                Question(text="Which car?", answer="none", kind="adversarial", evidence=()),
            ),
        )
    ]


def test_longmemeval_is_a_haystack_a_question(tmp_path: Path) -> None:
    """In the order of dates, which its smallest file is not in; evidence are the turns marked, of what was said at all."""
    asked, unsaid = load("longmemeval", written(tmp_path / "l.json", LONGMEMEVAL))
    assert asked.said == (
        Said(role="user", text="[2023/05/20 (Sat) 02:21] Hello.", mark="0:0"),
        Said(role="user", text="[2023/05/30 (Tue) 23:40] I bought a brass lamp.", mark="1:0"),
        Said(role="assistant", text="[2023/05/30 (Tue) 23:40] Nice.", mark="1:1"),
    )
    assert asked.questions == (
        Question(text="Which lamp did I buy?", answer="a brass lamp", kind="single-session-user", evidence=("1:0",)),
    )
    assert unsaid.questions == (Question(text="Which chair did I buy?", answer="0", kind="abstention", evidence=()),)


def test_beam_is_a_folder_or_a_folder_of_them(tmp_path: Path) -> None:
    """By number; what its generator put behind a message is not part of it; evidence is a list or a table of lists."""
    one = load("beam", beam(tmp_path / "100K" / "2"))
    beam(tmp_path / "100K" / "10")
    assert [talk.id for talk in load("beam", tmp_path / "100K")] == ["2", "10"]
    assert one == [
        Conversation(
            id="2",
            said=(
                Said(role="user", text="The mill opens at nine.", mark="0"),
                Said(role="assistant", text="Noted.", mark="1"),
            ),
            questions=(
                Question(text="When does the mill open?", answer="nine", kind="information_extraction", evidence=("0",)),
                Question(text="And now?", answer="ten", kind="knowledge_update", evidence=("0",)),
                Question(text="Who owns it?", answer="not told", kind="abstention", evidence=()),
            ),
        )
    ]


def test_beam_s_longest_conversations_are_plans_of_batches(tmp_path: Path) -> None:
    """Plans in their order, one left empty; an id that stands twice names neither message."""
    folder = beam(tmp_path / "10M" / "1")
    later = [{"batch_number": 1, "turns": [[{"role": "user", "id": 0, "content": "The mill opens at ten."}]]}]
    written(folder / "chat.json", [{"plan-1": CHAT, "plan-2": None}, {"plan-1": None, "plan-2": later}])
    (found,) = load("beam", folder)
    assert [line.text for line in found.said] == ["The mill opens at nine.", "Noted.", "The mill opens at ten."]
    assert [question.evidence for question in found.questions] == [(), (), ()]


def test_beam_is_asked_about_the_chat_its_makers_shortened(tmp_path: Path) -> None:
    """Where there are both; and turns may stand without batches, as its download script writes them."""
    folder = beam(tmp_path / "1")
    written(folder / "chat_trunecated.json", [[{"role": "user", "id": 7, "content": "It closes at six."}]])
    (found,) = load("beam", folder)
    assert found.said == (Said(role="user", text="It closes at six.", mark="7"),)
    assert [question.evidence for question in found.questions] == [(), ("7",), ()]


@pytest.mark.parametrize(
    ("form", "content", "trouble"),
    [
        ("locomo", "[{}]", "is no locomo file"),
        ("longmemeval", "not json", "is no longmemeval file"),
        ("longmemeval", '{"a": 1}', "is no longmemeval file"),
        ("locomo", "[]", "other.json' holds no locomo conversation"),
        ("longmemeval", "[]", "other.json' holds no longmemeval conversation"),
        ("locomo", " \n", "other.json' is empty"),
        ("tape", "[]", "there is no loader for 'tape'"),
    ],
)
def test_another_file_is_refused_by_name(tmp_path: Path, form: str, content: str, trouble: str) -> None:
    """With what was missing in it."""
    file = tmp_path / "other.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match=trouble):
        load(form, file)


def test_a_folder_without_beam_and_a_file_that_is_not_there_are_refused(tmp_path: Path) -> None:
    """Each for its own reason."""
    with pytest.raises(BadInput, match=r"there is no chat\.json"):
        load("beam", tmp_path)
    with pytest.raises(BadInput, match="cannot be read"):
        load("locomo", tmp_path / "nowhere.json")
    written(beam(tmp_path / "1") / "chat.json", [])
    with pytest.raises(BadInput, match="there is no message in its chat"):
        load("beam", tmp_path / "1")


@pytest.mark.anyio
async def test_a_question_brings_its_evidence_back(tmp_path: Path) -> None:
    """Recall is scored against what the makers name; questions without evidence are counted and not asked."""
    said: list[str] = []
    found = await run_dataset("locomo", load("locomo", written(tmp_path / "l.json", LOCOMO)), say=said.append)
    assert found.looked == (
        Looked(conversation="ours-1", kind="single-hop", any_found=True, all_found=True),
        Looked(conversation="ours-1", kind="multi-hop", any_found=False, all_found=False),
    )
    assert (found.without_evidence, found.messages) == (1, 3)
    assert said == ["locomo ours-1: 3 messages, 3 questions (1 of 1)"]
    assert [row[:3] for row in build_table(found).rows] == [
        ["single-hop", "1", "100.0%"],
        ["multi-hop", "1", "0.0%"],
        ["all", "2", "50.0%"],
    ]
