"""Loaders for other people's conversations, on tiny ones of our own in their forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.bench.datasets.loading import Conversation, Question, Said, load
from holdfast.bench.datasets.run import Looked, run_dataset, table
from holdfast.errors import BadInput

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
                "category": 1,
                "evidence": ["D1:1"],
            },
            {"question": "Which car?", "adversarial_answer": "none", "category": 5, "evidence": []},
        ],
    }
]
LONGMEMEVAL = [
    {
        "question_id": "q1",
        "question_type": "single-session-user",
        "question": "Which lamp did I buy?",
        "answer": "a brass lamp",
        "haystack_dates": ["d1"],
        "haystack_sessions": [
            [{"role": "user", "content": "I bought a brass lamp.", "has_answer": True}, {"role": "assistant", "content": "Nice."}]
        ],
    }
]
CHAT = [{"batch_number": 1, "turns": [[{"role": "user", "id": 0, "content": "The mill opens at nine."}]]}]
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
    """In the order of the sessions, with their dates; pictures by their caption; questions with their evidence."""
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
                    kind="category 1",
                    evidence=("D1:1",),
                ),
                Question(text="Which car?", answer="none", kind="category 5", evidence=()),
            ),
        )
    ]


def test_longmemeval_is_a_haystack_a_question(tmp_path: Path) -> None:
    """Its evidence are the turns that are marked as having the answer."""
    (found,) = load("longmemeval", written(tmp_path / "l.json", LONGMEMEVAL))
    assert [line.mark for line in found.said] == ["0:0", "0:1"]
    assert found.questions == (
        Question(text="Which lamp did I buy?", answer="a brass lamp", kind="single-session-user", evidence=("0:0",)),
    )


def test_beam_is_a_folder_or_a_folder_of_them(tmp_path: Path) -> None:
    """Ids of evidence come as a list or as a table of lists."""
    one = load("beam", beam(tmp_path / "100K" / "1"))
    assert load("beam", tmp_path / "100K") == one
    assert [(question.kind, question.evidence) for question in one[0].questions] == [
        ("information_extraction", ("0",)),
        ("knowledge_update", ("0", "7")),
        ("abstention", ()),
    ]


@pytest.mark.parametrize(
    ("form", "content", "trouble"),
    [
        ("locomo", "[{}]", "is no locomo file"),
        ("longmemeval", "not json", "is no longmemeval file"),
        ("longmemeval", '{"a": 1}', "is no longmemeval file"),
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


@pytest.mark.anyio
async def test_a_question_brings_its_evidence_back(tmp_path: Path) -> None:
    """Recall is scored against what the makers name; questions without evidence are counted and not asked."""
    said: list[str] = []
    found = await run_dataset("locomo", load("locomo", written(tmp_path / "l.json", LOCOMO)), say=said.append)
    assert found.looked == (Looked(conversation="ours-1", kind="category 1", any_found=True, all_found=True),)
    assert (found.without_evidence, found.messages) == (1, 3)
    assert said == ["locomo ours-1: 3 messages, 2 questions (1 of 1)"]
    assert [row[:3] for row in table(found).rows] == [["category 1", "1", "100.0%"], ["all", "1", "100.0%"]]
