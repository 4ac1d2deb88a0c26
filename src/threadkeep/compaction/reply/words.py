"""The words models use for the state's structure, in the languages they fall into: headings, verbs, and ways to say nothing.

A word that is missing here costs little: its text counts as something new to hand over, and what was there stays.
"""

from __future__ import annotations

import re
from enum import StrEnum

from threadkeep.compaction.ledger import Section


class Verb(StrEnum):
    """What a reply says became of an entry."""

    RETAIN = "retain"
    UPDATE = "update"
    SUPERSEDE = "supersede"
    WITHDRAW = "withdraw"


# Names that make a heading wherever they begin a line, with text behind them or without.
_FULL_NAMES = {
    Section.OBJECTIVE: (
        "objective, objectives, ziel, ziele, zielsetzung, objetivo, objetivos, objectif, objectifs, 目标, 目標, 目的, цель, цели"
    ),
    Section.ACTIVE: (
        "active memory, active memories, aktives gedächtnis, aktiver speicher, aktive erinnerungen, memoria activa, "
        "mémoire active, 活动记忆, 活跃记忆, 有效记忆, 主动记忆, 当前记忆, アクティブメモリ, アクティブメモリー, "
        "有効な記憶, активная память"
    ),
    Section.INACTIVE: (
        "inactive changes, inactive memory, inaktive änderungen, cambios inactivos, changements inactifs, "
        "modifications inactives, 非活动更改, 非活动变更, 非活跃变更, 失效变更, 无效变更, 已失效变更, 無効な変更, "
        "非アクティブな変更, неактивные изменения"
    ),
    Section.HANDOFF: (
        "current handoff, current hand off, aktuelle übergabe, traspaso actual, entrega actual, relève actuelle, "
        "passation en cours, transmission actuelle, 当前交接, 現在の引き継ぎ, текущая передача"
    ),
    Section.EVIDENCE: (
        "evidence pointers, evidence pointer, belegverweise, verweise auf belege, punteros de evidencia, "
        "pointeurs de preuve, pointeurs de preuves, 证据指针, 证据索引, 証拠ポインタ, 証拠への参照, "
        "указатели на доказательства"
    ),
}
# Shorter names, which a sentence may begin with too: headings only when set off as one, or alone on their line.
_SHORT_NAMES = {
    Section.OBJECTIVE: ("goal, goals"),
    Section.ACTIVE: ("active, memory, constraints, aktiv, gedächtnis, activo, actif, 记忆, メモリ, память"),
    Section.INACTIVE: ("inactive, inaktiv, inactivo, inactif, 失效, 無効, неактивное"),
    Section.HANDOFF: (
        "handoff, hand off, next steps, status, current status, übergabe, nächste schritte, traspaso, próximos pasos, "
        "passation, prochaines étapes, 交接, 下一步, 引き継ぎ, 次のステップ, передача, следующие шаги"
    ),
    Section.EVIDENCE: (
        "evidence, pointers, references, files, belege, verweise, evidencia, evidencias, preuves, 证据, 証拠, доказательства"
    ),
}
_VERBS = {
    Verb.RETAIN: (
        "retain, retained, retains, keep, kept, unchanged, carry over, behalten, beibehalten, beibehalte, mantener, "
        "mantenido, conservar, conserver, conservé, garder, 保留, 保持, 維持, сохранить, сохранено, оставить"
    ),
    Verb.UPDATE: (
        "update, updated, updates, revise, revised, modify, modified, aktualisieren, aktualisiert, actualizar, "
        "actualizado, mettre à jour, mis à jour, 更新, 修改, 修正, обновить, обновлено"
    ),
    Verb.SUPERSEDE: (
        "supersede, superseded, supersedes, replace, replaced, override, overridden, ersetzen, ersetzt, überholt, "
        "reemplazar, reemplazado, sustituir, sustituido, remplacer, remplacé, 取代, 被取代, 替换, 替代, 置換, 置き換え, "
        "заменить, заменено"
    ),
    Verb.WITHDRAW: (
        "withdraw, withdrawn, withdraws, cancel, cancelled, canceled, remove, removed, delete, deleted, drop, dropped, "
        "retract, retracted, revoke, revoked, zurückziehen, zurückgezogen, widerrufen, verworfen, entfernt, retirar, "
        "retirado, cancelado, retirer, retiré, annulé, 撤回, 撤销, 取消, 删除, 取り消し, 削除, отозвать, отозвано, "
        "отменить, отменено"
    ),
}
_ADDING = "add, added, new, neu, hinzugefügt, añadir, nuevo, ajouter, nouveau, 新增, 添加, 追加, добавить, новое"
_NOTHING = (
    "none, none yet, nothing, n a, na, nil, null, empty, no entries, no changes, no change, not applicable, tbd, keine, "
    "keiner, nichts, leer, ninguno, ninguna, nada, aucun, aucune, rien, néant, 无, 無, 没有, 暂无, なし, 該当なし, "
    "特になし, нет, ничего, пусто"
)
_REFUSALS = (
    "i cannot, i can't, i can’t, i'm sorry, i’m sorry, i am sorry, sorry, i'm unable, i am unable, as an ai, i won't, "
    "ich kann nicht, ich kann dabei nicht, es tut mir leid, tut mir leid, lo siento, no puedo, désolé, je suis désolé, "
    "je ne peux pas, 抱歉, 对不起, 很抱歉, 我无法, 我不能, 申し訳, すみません, извините, к сожалению, я не могу"
)

_camel = re.compile(r"(?<=[a-zа-яäöü])(?=[A-Z])")
_joint = re.compile(r"[\W_]+")


def folded(name: str) -> str:
    """Return what two spellings of a name share: `Active_Memory`, `activeMemory` and `**active memory**` are one."""
    return _joint.sub(" ", _camel.sub(" ", name).casefold()).strip()


def _listed(words: str) -> list[str]:
    return [word.strip() for word in words.split(",")]


FULL_HEADINGS = {folded(name): section for section, names in _FULL_NAMES.items() for name in _listed(names)}
SHORT_HEADINGS = {folded(name): section for section, names in _SHORT_NAMES.items() for name in _listed(names)}
VERBS = {folded(word): verb for verb, words in _VERBS.items() for word in _listed(words)}
ADDING = frozenset(map(folded, _listed(_ADDING)))
NOTHING = frozenset(map(folded, _listed(_NOTHING)))
REFUSALS = tuple(_listed(_REFUSALS))
