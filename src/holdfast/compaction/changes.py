"""Phrases by which people change their mind, take something back, or only greet, in the languages they write in.

They never decide what holds. With a tie between two statements, a phrase of change chooses between two outcomes that are both
safe: the older one moves aside with what replaced it, or both stand side by side. A phrase that is missing here costs a line of
context; one that is wrongly found puts two statements on one line.
"""

from __future__ import annotations

import re
from functools import lru_cache

# What also denies, or only tells the time: with one of these alone a statement need not be about anything said before.
_weak = re.compile(
    r"\b(?:not|now|longer|rather|nicht|jetzt|nun|doch|besser|ahora|mejor|maintenant|plus|wait|сейчас|теперь|лучше)\b|n['’]t\b"
    r"|不是|还是|现在|以后|今は|ليس|الآن|الان",
    re.IGNORECASE,
)
_strong = re.compile(
    r"\b(?:"
    r"instead|moved|shifted|relocated|swapped|handed over|took over|takes over|should read|in place of|"
    r"change of (?:plan|mind)|chang(?:ed|ing)|change (?:it|that|this|them|the|my|our|of)|actually|"
    r"correct(?:ion|ing|ed)|replac(?:e[sd]?|ing)|revised?|no longer|"
    r"switch(?:e[sd]|ing)? (?:to|from|over|back)|scratch (?:that|the|it|this)|"
    r"on (?:second|reflection)|after all|make (?:that|it|this|them)|"
    r"updated|update:|"
    r"supersede[sd]?|bump(?:ed)?|raised|raise (?:the|it|that|this)|lowered|lower (?:the|it|that)|"
    r"extend(?:ed)?|push(?:ed)? (?:[\w-]+ ){0,3}(?:back|out)|"
    r"postponed?|brought forward|renamed?|"
    r"(?:i|we)(?: was|'ve| have| had| were|'d)? (?:wrong|mistaken|misspoke|decided|changed)|my mistake|"
    r"i meant|meant to say|overrul\w+|as of|from (?:now|here|today|this point) on|going forward|(?:no|nope|wait)[,:]|"
    r"new (?:plan|value|number|deadline|name|limit|rule)|"
    r"statt(?:dessen)?|anstatt|sondern|lieber|korrektur|korrigier\w*|änder\w*|geändert|umgestellt|verschoben|nicht mehr|"
    r"ab (?:jetzt|sofort|heute)|neu(?:er|e|es)? ist|ersetz\w*|irrtum|vertan|nunmehr|künftig|fortan|umbenannt|wechsel\w*|"
    r"ya no|en vez|en lugar|c[aá]mbi\w+|corrección|corrijo|me equivoqué|en realidad|a partir de|pensándolo|"
    r"sustitu\w+|reemplaz\w+|rectific\w+|al final|perdón|quise decir|"
    r"désormais|dorénavant|plutôt|finalement|remplac\w+|déplac\w+|report(?:é|ée|és) (?:à|au)|pospuest\w*|aplaz\w+|traslad\w+|"
    r"вместо|больше не|передумал\w*|измен\w+|поменя\w+|замен\w+|исправь (?:это|на)|поправк\w*|"
    r"ошибся|ошиблась|ошиблись|отныне|всё-таки|"
    r"все-таки|вернее|точнее|перенес\w+|перенос\w*|на самом деле"
    r")\b"
    r"|不再|而是|改为|改成|改用|改到|换成|换到|更正|更改|修改[为成到]|变更|其实|说错|搞错|弄错|调整|从现在起|今后|取而代之|推迟|提前"
    r"|変更|変わ|変え|ではなく|じゃなく|やっぱり|やはり|訂正|間違|代わり|今後|これから|切り替え|改め|延期|新しく"
    r"|بدل|بدلا|تغيير|غير(?:ت|نا|وا)|تصحيح|تعديل|من الآن|أخطأت|في الواقع|استبد|لم يعد|أصبح|صار|بل ",
    re.IGNORECASE,
)
_now = re.compile(
    r"\b(?:now|meanwhile|again|jetzt|nun|inzwischen|wieder|ahora|maintenant|сейчас|теперь|снова)\b|现在|今は|الآن|الان",
    re.IGNORECASE,
)
# What stands for something said before.
_anaphora = re.compile(
    r"\b(?:that|it|this|those|them|these|one|das|es|dies\w*|den|die|eso|esto|ese|lo|la|cela|ça|это|этот|его|её|ее|их|то)\b"
    r"|这|那|它|それ|これ|あれ|その|この|ذلك|هذا|هذه|تلك|ها\b",
    re.IGNORECASE,
)
_withdrawal = re.compile(
    r"\b(?:"
    r"stop|forget|scrap|ignore|disregard|cancel(?:led|ed)?|withdr[ae]w\w*|never ?mind|no longer|any ?more|"
    r"drop (?:the|that|it|this|what|my|all)|no more \w+s\b|what i said|i take (?:it |that )?back|need(?: not|n't) (?!be\b)|"
    r"don't (?:bother|have to)|do not have to|not (?:required|necessary)|waived?|rescind\w*|abolish\w*|ditch(?:ed)?|"
    r"scrapped|dropped|discontinu\w+|(?:is|are|was) (?:history|dead|moot|over|out|off(?: the table)?)|let go of|give up on|"
    r"spare (?:me|us|people)|"
    r"undo|revoke[sd]?|lift(?:ed)?|skip (?:the|that)|call(?:ed)? off|take (?:that )?back|doesn't (?:apply|matter)|not needed|"
    r"no need|obsolete|void|retract|strike (?:that|the)|leave out|off the table|can go|is gone|"
    r"vergiss|vergessen|nicht mehr|hinfällig|entfällt|streich\w*|gestrichen|zurückgezogen|zurücknehmen|gilt nicht|verwirf|"
    r"nicht länger|fällt weg|fallen weg|weglassen|spar(?:t|en)? (?:dir|euch|wir)|vom tisch|schluss mit|braucht(?:'s| es)? nicht|"
    r"verworfen|lass(?:t)? (?:das|die|den|es)|abgesagt|aufgehoben|egal|überflüssig|erledigt sich|"
    r"deja de|olvida\w*|olvíd\w+|ya no|cancel\w+|ignora\w*|descart\w+|anul\w+|no hace falta|quita|quitar|suprim\w+|sin efecto|"
    r"se acabó|no es necesari\w+|dej(?:a|ad|en|emos) de|retir(?:o|a|amos|ad[oa]s?)|"
    r"oublie\w*|ne plus|n'est plus|plus besoin|annul\w+|abandonn\w+|laisse[zr]? tomber|on arrête|inutile de|"
    r"забудь\w*|отмен\w+|больше не|не нужно|не надо|снима\w+|убери|игнориру\w+|неактуальн\w+|отбой|прекрат\w+|"
    r"не требуется|можно не|снят\w*|упраздн\w*|хватит"
    r")\b|不再|不用|取消|停止|忘|作废|算了|撤回|撤销|不必|别管|不需要|废除|无需|免了|解除|放弃|去掉"
    r"|やめ|取り消し|取消|忘れ|不要|キャンセル|撤回|なしで|もういい|必要ない|必要ありません|中止|廃止|解除|なくていい|なくて構"
    r"|انس|الغ|ألغ|إلغاء|تجاهل|لا داعي|لم نعد|لم يعد|توقف|اترك|لا حاجة|رفع|سحب",
    re.IGNORECASE,
)
# What begins like this is mostly done to the work and not to what was said about it.
_at_hand = re.compile(
    r"^(?:please |now |ok(?:ay)?,? |then |so |also |and |bitte |jetzt |dann )*(?:stop|cancel|undo|skip|replace|rename|move|"
    r"switch|change(?! of)|correct|update|swap|extend|raise|lower|bump|revert|drop|"
    r"brich|stopp\w*|ersetz\w*|änder\w*|korrigier\w*|benenne|verschieb\w*|cancel[ae]|cambi[ae]|reemplaz[ae]|corrig[ea]|annule|remplace|"
    r"замени|измени|исправь|отмени|останови)\b|^(?:请)?(?:把|将)|^the (?:tests?|build|job|server|run)s? (?:no longer|is|are)\b",
    re.IGNORECASE,
)
# What speaks of something said, and not of something made.
_of_words = re.compile(
    r"\b(?:what i (?:said|told|wrote)|i (?:said|told)|rules?|bans?|requirements?|demands?|restrictions?|instructions?|duty|"
    r"duties|condition|instead|after all|rather|any ?more|scheme|policy|habit|practice|remark|wish|request to|"
    r"regel\w*|vorgabe\w*|anweisung\w*|pflicht|regla\w*|norma\w*|"
    r"règle\w*|consigne\w*|правил\w*|требован\w*)\b|规则|规定|要求|ルール|決まり|قاعدة|شرط",
    re.IGNORECASE,
)
# What people say without asking anything of anyone about anything.
_courtesy = re.compile(
    r"\b(?:sorry|oops|pardon|apologies|entschuldigung|disculpa|siento|извини\w*|hello|hi|hey|hiya|good|great|"
    r"nice|fine|cool|perfect|excellent|awesome|super|well|done|work|job|morning|afternoon|evening|"
    r"night|thanks?|thank|thx|cheers|you|much|very|so|that|this|is|it|its|looks?|lgtm|ok(?:ay)?|yes|yep|yeah|sure|right|please|pls|go|"
    r"going|ahead|on|continue|carry|proceed|next|one|step|keep|again|more|now|then|and|the|with|for|a|let|us|lets|move|back|"
    r"bye|see|later|hallo|guten|tag|moin|danke|dankeschön|vielen|dank|bitte|weiter|mach|machen|gut|schön|prima|ja|so|das|ist|"
    r"nächste[rsn]?|hola|buenos|buenas|días|tardes|gracias|muchas|por|favor|sigue|seguimos|adelante|vale|bien|muy|siguiente|"
    r"bonjour|merci|beaucoup|suivant|continuez|oui|"
    r"привет|здравствуйте|спасибо|большое|пожалуйста|дальше|продолжай|продолжайте|хорошо|отлично|да|ок|следующий|следующая|"
    r"далее)\b"
    r"|抱歉|对不起|すみません|عذرا|谢谢|感谢|你好|您好|继续|请|好的|好|很|不错|下一个|下一步|辛苦了|吧|了|，|。"
    r"|ありがとう|ございます|こんにちは|おはよう|続けて|お願い|します|ください|次|どうぞ|はい|了解|です|よろしく"
    r"|شكرا|شكرًا|مرحبا|مرحبًا|أهلا|تابع|استمر|واصل|من فضلك|حسنا|حسنًا|ممتاز|نعم|التالي|جزيلا",
    re.IGNORECASE,
)
_left = re.compile(r"[^\W_]")
# Addresses, paths, ids: their words are names, and change nothing.
_names = re.compile(r"`[^`\n]*`|[!-~]*[@/_0-9][!-~]*|[A-Za-z]+\.[A-Za-z][!-~]*")
_question = re.compile(r"[?？؟][\"'”’)\]]*$")


@lru_cache(maxsize=16_384)
def tells_a_change(text: str) -> bool:
    """Whether a statement reads as if something became different, or as a denial."""
    return corrects(text) or _weak.search(text) is not None


@lru_cache(maxsize=16_384)
def corrects(text: str) -> bool:
    """Whether a statement reads as a change of something said before."""
    return _strong.search(_names.sub(" ", text)) is not None


@lru_cache(maxsize=16_384)
def tells_how_it_is_now(text: str) -> bool:
    """Whether a statement says of itself that it was not always so."""
    return _now.search(text) is not None


@lru_cache(maxsize=16_384)
def points_back(text: str) -> bool:
    """Whether a statement has a word that stands for something said before."""
    return _anaphora.search(text) is not None


@lru_cache(maxsize=16_384)
def withdraws(text: str) -> bool:
    """Whether a statement reads as if something were taken back."""
    return _withdrawal.search(_names.sub(" ", text)) is not None


@lru_cache(maxsize=16_384)
def orders_work(text: str) -> bool:
    """Whether a statement reads like an order about the work at hand, which changes nothing that was demanded before."""
    return _at_hand.search(text) is not None and not speaks_of_words(text)


@lru_cache(maxsize=16_384)
def speaks_of_words(text: str) -> bool:
    """Whether a statement speaks of something that was said: a rule, a wish, "what I told you"."""
    return _of_words.search(text) is not None


def only_asks(text: str) -> bool:
    """Whether a statement is a question, and none that suggests a change."""
    return _question.search(text) is not None and not corrects(text) and not withdraws(text)


@lru_cache(maxsize=16_384)
def fixes_something(text: str) -> bool:
    """Whether a statement could be changed by a later one: it is no greeting, no question, and does not only introduce others."""
    return not (text.rstrip().endswith((":", "：")) or _question.search(text) is not None or is_courtesy(text))


@lru_cache(maxsize=16_384)
def without_phrases(text: str) -> str:
    """Return what is left of a statement without the phrases by which it changes, takes back or greets."""
    for phrases in (_strong, _withdrawal, _weak, _anaphora, _courtesy):
        text = phrases.sub(" ", text)
    return text


@lru_cache(maxsize=16_384)
def without_change(text: str) -> str:
    """Return what is left of a statement without the phrases by which it changes something or takes it back."""
    return _withdrawal.sub(" ", _strong.sub(" ", text))


@lru_cache(maxsize=16_384)
def is_courtesy(text: str) -> bool:
    """Whether nothing is left of a statement without greetings, thanks and requests to go on."""
    return _left.search(_courtesy.sub(" ", text)) is None
