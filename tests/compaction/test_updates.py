"""Changes that do not name what they change: the older statement is never left standing as if nothing had been said."""

from __future__ import annotations

import pytest

from threadkeep.compaction.ledger import BINDING, Claim, Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.merge import merge
from threadkeep.compaction.operations import Add, Supersede
from threadkeep.compaction.statements import statements
from threadkeep.thread import Pointer

# A session's worth of other things a user said, none of which any change below is about.
AROUND = (
    "Reviews go to Ilse Brandt before anything is merged.",
    "Keep the public headers free of templates.",
    "The nightly import reads from `s3://tern-inbox/raw`.",
    "Never log customer names.",
    "Die Oberfläche bleibt auf Deutsch und Englisch.",
    "Los informes se guardan durante 30 días.",
    "所有接口都要有文档。",
    "テストは必ず日本語で書いてください。",
    "Не трогай папку vendor.",
    "لا تحذف السجلات القديمة.",
    "The dashboard colours follow the brand sheet.",
    "Use at most 4 workers in the build.",
)


def at(ordinal: int) -> Pointer:
    return Pointer("t", ordinal)


def heard(*messages: str) -> Ledger:
    """The ledger after these messages of one user, in order."""
    spoken = {at(ordinal): message for ordinal, message in enumerate(messages, start=1)}
    operations = [
        Add(section=Section.ACTIVE, text=text, source=source, speaker=Speaker.USER)
        for source, message in spoken.items()
        for text in statements(message)
    ]
    return merge(Ledger(), operations, spoken=spoken)


def beside(entry: LedgerEntry) -> str:
    return entry.claim.text if entry.claim else ""


def touched(ledger: Ledger) -> list[str]:
    return [entry.text for entry in ledger.entries if entry.claim is not None]


FAR = [
    ("The staging port is 8080.", "On reflection the staging port should be 9090.", "9090"),
    ("Uploads are capped at 25 MB.", "Raise the upload cap to 40 MB.", "40"),
    ("The release ships on 2031-03-14.", "We pushed the release back: 2031-04-02.", "2031-04-02"),
    ("Call the service kelpd.", "The service gets a new name, it is wrackd from today on.", "wrackd"),
    ("Retry failed jobs three times.", "For failed jobs, five retries after all.", "five"),
    ("The nightly cleanup job must run at two in the morning.", "Never mind the nightly cleanup job.", "Never mind"),
    ("Answer every ticket in formal English.", "Forget the rule about formal English in tickets.", "Forget"),
    ("Put a banner on every page of the portal.", "Scrap the banner, nobody likes it.", "Scrap"),
    ("Der Puffer fasst 512 Einträge.", "Beim Puffer bitte doch lieber 1024 Einträge.", "1024"),
    ("Das Passwortfeld muss mindestens zwölf Zeichen verlangen.", "Passwortfeld: ab sofort reichen zehn Zeichen.", "zehn"),
    ("Schick den Wochenbericht jeden Montag an die Leitung.", "Der Wochenbericht entfällt, vergiss ihn.", "entfällt"),
    ("El tiempo de espera es de 20 segundos.", "Pensándolo mejor, el tiempo de espera será de 45 segundos.", "45"),
    ("Avisa a Rocío cuando termine la migración.", "Ya no hace falta avisar a Rocío de la migración.", "Ya no"),
    ("缓存的有效期是 10 分钟。", "缓存有效期改成 25 分钟吧。", "25"),
    ("日志要保存到 /var/tern/log。", "日志的位置调整一下，放到 /srv/tern/log。", "/srv/tern/log"),
    ("每次提交之前都要运行格式化工具。", "格式化工具那条规则取消。", "取消"),
    ("バックアップは毎日3時に実行します。", "バックアップの時刻は5時に変更してください。", "5時"),
    ("承認者は佐藤さんです。", "やっぱり承認者は鈴木さんにします。", "鈴木"),
    ("週報の自動送信を有効にしてください。", "週報の自動送信はやめましょう。", "やめ"),
    ("Размер страницы — 50 записей.", "Всё-таки размер страницы пусть будет 80 записей.", "80"),
    ("Отчёты отправляй Марине каждую пятницу.", "Отчёты Марине больше не нужны, отмени.", "больше не"),
    ("مهلة الاتصال هي 30 ثانية.", "في الواقع اجعل مهلة الاتصال 60 ثانية.", "60"),
    ("أرسل التقرير اليومي إلى سلمى.", "ألغ التقرير اليومي.", "ألغ"),
    ("The owner of the billing queue is Tomas Ferro.", "Billing queue ownership moved to Aiko Lund.", "Aiko Lund"),
    ("Deploy the worker to the Dublin region.", "The worker's region changed, Oslo it is.", "Oslo"),
    ("Use tabs in the makefiles of the firmware tree.", "Correction on the firmware makefiles: spaces.", "spaces"),
    ("The invoice template is `inv-classic`.", "Replace the invoice template with `inv-slim`.", "inv-slim"),
    ("Maximum batch size: 200.", "Batch size 350 from now on.", "350"),
]


@pytest.mark.parametrize(("older", "newer", "word"), FAR)
def test_a_change_stands_beside_what_it_changes_however_much_was_said_between(older: str, newer: str, word: str) -> None:
    """By the rare words they share, in any language; the newer words are on the older one's line."""
    ledger = heard(*AROUND[:6], older, *AROUND[6:], newer)
    (entry,) = (each for each in ledger.entries if each.text == older)
    assert word in beside(entry)


@pytest.mark.parametrize(("older", "newer", "word"), FAR)
def test_a_change_leaves_what_it_is_not_about_alone(older: str, newer: str, word: str) -> None:
    """A contest that means nothing teaches the reader to skip contests."""
    ledger = heard(*AROUND[:6], older, *AROUND[6:], newer)
    assert [text for text in touched(ledger) if text != older] == []


NEAR = [
    ("The staging port is 8080.", "Make that 9090 after all.", "9090"),
    ("Send the invoice on 2031-05-01.", "No, wait, I meant 2031-05-08.", "2031-05-08"),
    ("Every page needs a banner.", "Actually, forget that.", "forget that"),
    ("Der Puffer fasst 512 Einträge.", "Nein, ändere das auf 1024.", "1024"),
    ("El límite es de 20 peticiones.", "Perdón, cámbialo a 35.", "35"),
    ("缓存的有效期是 10 分钟。", "说错了，改成 25。", "25"),
    ("制限は20件です。", "やっぱりそれは35件に変更。", "35"),
    ("Размер страницы — 50 записей.", "Нет, ошибся, исправь это на 80.", "80"),
    ("المهلة 30 ثانية.", "أخطأت، اجعلها 60 بدلا من ذلك.", "60"),
]


@pytest.mark.parametrize(("older", "newer", "word"), NEAR)
def test_a_change_that_only_points_back_stands_beside_what_was_said_last(older: str, newer: str, word: str) -> None:
    """It names nothing of what it changes; the last value of its kind, or the last thing said, is what it means."""
    ledger = heard(*AROUND, older, newer)
    (entry,) = (each for each in ledger.entries if each.text == older)
    assert word in beside(entry)


NO_CHANGE = [
    "Hello!",
    "Good morning, how far did you get?",
    "Thanks, next one.",
    "Go on please.",
    "Great, that works now.",
    "Can you show me the failing job first?",
    "Please look at the import again.",
    "Danke, weiter bitte.",
    "Super, mach bitte weiter.",
    "Gracias, sigue por favor.",
    "谢谢，继续吧。",
    "好的，请继续下一步。",
    "ありがとうございます、続けてください。",
    "次をお願いします。",
    "Спасибо, дальше.",
    "شكرا، تابع من فضلك.",
    "The build is green on my machine.",
    "Now write the tests for the lexer.",
    "What does the parser do with empty input?",
]


@pytest.mark.parametrize("message", NO_CHANGE)
def test_a_greeting_or_a_mere_request_contests_nothing(message: str) -> None:
    """Neither what was said long ago nor what was said last."""
    assert touched(heard(*AROUND, "The staging port is 8080.", message)) == []


def test_the_last_of_several_changes_stands_beside_all_of_them() -> None:
    """Whoever reads the first value also reads the last one."""
    ledger = heard("The staging port is 8080.", *AROUND, "The staging port should rather be 9090.", "No wait, make that 7070.")
    first = next(entry for entry in ledger.entries if entry.text == "The staging port is 8080.")
    second = next(entry for entry in ledger.entries if entry.text == "The staging port should rather be 9090.")
    assert "7070" in beside(first)
    assert "7070" in beside(second)


def test_a_new_value_in_the_next_sentence_stands_on_the_line() -> None:
    """The change names the topic, the sentence after it the value."""
    ledger = heard("The staging port is 8080.", *AROUND, "Forget what I said about the staging port. It is 9090.")
    assert "9090" in beside(ledger.entries[0])


def test_a_slip_mended_in_the_same_message_is_contested() -> None:
    """People correct themselves in the next breath."""
    ledger = heard(*AROUND, "The staging port is 8080. Sorry, I meant 9090.")
    (entry,) = (each for each in ledger.entries if each.text == "The staging port is 8080.")
    assert entry.section in BINDING
    assert "9090" in beside(entry)


def test_a_later_change_of_another_kind_does_not_hide_the_earlier_one() -> None:
    """Which of two claims is about an entry is for the reader to say: both stay on its line."""
    ledger = heard(
        "The staging port is 8080.",
        *AROUND,
        "On reflection the staging port should be 9090.",
        "The staging certificate changed, ask Ilse.",
    )
    assert "9090" in beside(ledger.entries[0])


def test_what_is_said_of_another_thing_with_another_value_is_no_change() -> None:
    """Two of a kind are two things."""
    ledger = heard("The staging server listens on port 8080.", "The production server listens on port 9090.", *AROUND)
    assert touched(ledger) == []


def test_what_was_said_between_two_claims_is_not_left_out() -> None:
    """A draft may name the last message first; the change that came before it still reaches the line."""
    older, change, last = "No deploys after 22:00.", "Forget the pause for deploys.", "Look at the deploys page."
    spoken = {at(1): older, at(2): change, at(3): last}
    first = merge(Ledger(), [Add(section=Section.ACTIVE, text=older, source=at(1), speaker=Speaker.USER)], spoken=spoken)
    after = merge(first, [Supersede(entry_id="1", by=at(3), claim=last)], spoken=spoken)
    after = merge(after, [Add(section=Section.ACTIVE, text=change, source=at(2), speaker=Speaker.USER)], spoken=spoken)
    assert after.entries[0].claim == Claim(text=f"{last} — before that #2: {change}", source=at(3))
