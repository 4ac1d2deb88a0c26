"""Phrases by which people change their mind, take something back, or only greet, in the languages they write in.

They never decide what holds. With a tie between two statements, a phrase of change chooses between two outcomes that are both
safe: the older one moves aside with what replaced it, or both stand side by side. A phrase that is missing here costs a line of
context; one that is wrongly found puts two statements on one line.
"""

from __future__ import annotations

import re
from functools import lru_cache

from threadkeep.compaction.any_case import AnyCase

# What also denies, or only tells the time: with one of these alone a statement need not be about anything said before.
_weak = re.compile(
    r"\b(?:not|now|longer|rather|nicht|jetzt|nun|doch|besser|ahora|mejor|maintenant|plus|wait|сейчас|теперь|лучше)\b|n['’]t\b"
    r"|不是|还是|现在|以后|今は|(?<!\w)[وف]?(?:ليس|الآن|الان)(?!\w)",
    re.IGNORECASE,
)
_strong = AnyCase(
    r"\b(?:"
    r"instead|moved|shifted|relocated|swapped|handed over|took over|takes over|should read|in place of|"
    r"change of (?:plan|mind)|(?:is|are|was|were|been|being|has|have) chang(?:ed|ing)|"
    r"chang(?:ed|ing)(?= (?:to|from|my|our|the|it|that|this|again|for|on|over)\b|\s*[,.;:!]|\s*$)|change (?:it|that|"
    r"this|them|the|my|our|of)|actually|"
    r"correct(?:ion|ing|ed)|replac(?:e[sd]?|ing)|revised?|no longer|"
    r"switch(?:e[sd]|ing)? (?:to|from|over|back)|scratch (?:that|the|it|this)|"
    r"on (?:second|reflection)|after all|make that|make (?:it|this|them) (?:an? )?(?:\d|one|two|three|four|five|six|"
    r"seven|eight|nine|ten)|"
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
    r"|不再|而是|改为|改成|改用|改到|换成|换到|更正|更改|修改[为成到]|变更|其实|说错|搞错|弄错|调整|从现在起|今后|"
    r"取而代之|推迟|提前"
    r"|変更|変わ(?!ら)|変え(?!ない)|ではなく|じゃなく|やっぱり|やはり|訂正|間違|代わり|今後|これから|切り替え|改め|延期|"
    r"新しく"
    r"|(?<!\w)[وف]?(?:بدلا?(?!\w)|تغيير|غير(?:ت|نا|وا)(?!\w)|تصحيح|من الآن|أخطأت|في الواقع|استبد|لم يعد|أصبح|صار|بل(?!\w))",
)
# What stands for something said before.
_anaphora = re.compile(
    r"\b(?:that|it|this|those|them|these|one|das|es|dies\w*|den|die|eso|esto|ese|lo|la|cela|ça|это|этот|его|её|ее|их|то)\b"
    r"|这|那|它|それ|これ|あれ|その|この|(?<!\w)(?:ذلك|هذا|هذه|تلك)(?!\w)|ها\b",
    re.IGNORECASE,
)
_withdrawal = AnyCase(
    r"\b(?:"
    r"stop|forget|scrap|ignore|disregard|cancel(?:led|ed)?|withdr[ae]w\w*|never ?mind|no longer|"
    r"(?:need(?:s|ed)?|have to|has to|must|should|do|does|bother|want(?:s|ed)?|require[sd]?|necessary|isn't|aren't|not|"
    r"n't) (?:[\w'-]+ ){0,9}any ?more|"
    r"(?:needs|is|are) (?:[\w'-]+ ){0,6}any ?more|"
    r"drop (?:the|that|it|this|what|my|all)|no more \w+s\b|what i said|i take (?:it |that )?back|need(?: not|n't) (?!be\b)|"
    r"don't (?:bother|have to)|do not have to|not (?:required|necessary)|waived?|rescind\w*|abolish\w*|ditch(?:ed)?|"
    r"scrapped|dropped|discontinu\w+|(?:is|are|was) (?:history|dead|moot|over|out|off(?: the table)?)|let go of|give up on|"
    r"spare (?:me|us|people)|things? of the past|done with the|(?:was|were) a bad idea|pointless|unnecessary|"
    r"superfluous|withdrawn|"
    r"repealed|lapsed|(?:don't|do not) need|do without|(?:can|may) be ignored|(?:allowed|permitted|free|fine|okay|"
    r"ok) again|relaxed|"
    r"abandon(?:ed)?|shelved?|kill the|nix|"
    r"nicht nötig|unnötig|kann weg|können weg|erübrigt|überholt|zurückgenommen|abgeschafft|aufgegeben|vom tisch|d(?:arf|"
    r"ürfen) wieder|"
    r"verzicht\w*|innecesari\w+|prescind\w+|no necesit\w+|obsolet\w+|inutiles?|caduc\w*|n'a plus|ne \w+ plus|n'\w+ plus|"
    r"plus la peine|"
    r"устарел\w*|отзыва\w+|не действует|не нуж(?:ен|на|ны)|необязательн\w*|"
    r"undo|revoke[sd]?|lift(?:ed)?|skip (?:the|that)|call(?:ed)? off|take (?:that )?back|doesn't (?:apply|matter)|not needed|"
    r"no need|obsolete|void|retract|strike (?:that|the)|leave out|off the table|can go|is gone|"
    r"vergiss|vergessen|nicht mehr|hinfällig|entfällt|streich\w*|gestrichen|zurückgezogen|zurücknehmen|gilt nicht|verwirf|"
    r"nicht länger|fällt weg|fallen weg|weglassen|spar(?:t|en)? (?:dir|euch|wir)|vom tisch|schluss mit|braucht(?:'s|"
    r" es)? nicht|"
    r"verworfen|lass(?:t)? (?:das|die|den|es)|abgesagt|aufgehoben|egal|überflüssig|erledigt sich|"
    r"deja de|olvida\w*|olvíd\w+|ya no|cancel\w+|ignora\w*|descart\w+|anul\w+|no hace falta|quita|quitar|suprim\w+|"
    r"sin efecto|"
    r"se acabó|no es necesari\w+|dej(?:a|ad|en|emos) de|retir(?:o|a|amos|ad[oa]s?)|"
    r"oublie\w*|ne plus|n'est plus|plus besoin|annul\w+|abandonn\w+|laisse[zr]? tomber|on arrête|inutile de|"
    r"забудь\w*|отмен\w+|больше не|не нужно|не надо|снима\w+|убери|игнориру\w+|неактуальн\w+|отбой|прекрат\w+|"
    r"не требуется|можно не|снят\w*|упраздн\w*|хватит"
    r")\b|不再|不用|取消|停止|忘|作废|算了|撤回|撤销|不必|别管|不需要|废除|无需|免了|解除|放弃|去掉|没必要|免去|废止|"
    r"失效|过时|撤掉|可以不|别再"
    r"|やめ|取り消し|取消|忘れ|不要(?=です|だ|に|な|。|$)|キャンセル|撤回|なしで|もういい|必要ない|必要ありません|中止|"
    r"廃止|解除|なくて(?:も)?(?:いい|構)|いりません|要らない|必要はない|取りやめ|撤廃|白紙"
    r"|(?<!\w)[وف]?(?:انس(?!\w)|[اأ]لغ[ِيتو]?(?!\w)|ألغينا|إلغاء|تجاهل|لا داعي|لم نعد|لم يعد|توقف|اترك|لا حاجة|لا لزوم|"
    r"لم تعد|غير ضروري|ملغى|ملغاة|كف عن|دعك|رفعنا|سحبت)",
)
# Whoever forbids to drop or cancel something takes nothing back.
_forbidden = re.compile(
    r"(?:\b(?:never|not|don['’]t|cannot|can['’]t|nie|niemals|nicht|nunca|jamais|no|никогда|не)(?: ever)?\s+|不要|别|勿|"
    r"不得|不能|(?<!\w)لا )$",
    re.IGNORECASE,
)
# What begins like this is mostly done to the work and not to what was said about it.
_at_hand = re.compile(
    r"^(?:please |now |ok(?:ay)?,? |then |so |also |and |bitte |jetzt |dann )*(?:stop(?! \w+ing\b)|cancel|undo|skip|"
    r"replace|rename|move|"
    r"switch|change(?! of)|correct|update|swap|extend|raise|lower|bump|revert|drop|"
    r"brich|stopp\w*|ersetz\w*|änder\w*|korrigier\w*|benenne|verschieb\w*|cancel[ae]|cambi[ae]|reemplaz[ae]|corrig[ea]|"
    r"annule|remplace|"
    r"замени|измени|исправь|отмени|останови|убери|поменяй|перенеси|переименуй|обнови|quita|quite|entfern\w*)\b|"
    r"^(?:请)?(?:把|将|去掉|停止)"
    r"|を[^。]{0,20}(?:変更|変え|修正|置き換え)|^(?:غي?ر|استبدل|عدل|انقل)(?!\w)"
    r"|^the (?:tests?|build|job|server|run)s? (?:no longer|is|"
    r"are)\b",
    re.IGNORECASE,
)
# What is asked for, said or done now, and done with then; unless it says that it is meant for more than once.
_for_now = re.compile(
    r"^(?:(?:ok(?:ay)?|so|and|then|now|please|first|also|bitte|por favor)[,:]? )*(?:show|tell|explain|look|have a look|"
    r"list|compare|"
    r"reproduce|follow|find out|add|fix|rename|remove|create|implement|refactor|merge|rebase|debug|investigate|clean|"
    r"convert|extract|split|"
    r"propose|describe|walk|try|go on|continue|review|here (?:is|are)|let me|give me|let's|what|why|how|where|which|who|when|"
    r"i (?:think|suspect|guess|wonder|want|would|need|only|just|am|was|have|saw|see|care|like)|"
    r"zeig|erklär|schau|sieh|vergleich|prüf|such|muestra|explica|mira|compara|revisa|montre|explique|regarde|покажи|"
    r"объясни|посмотри|сравни|открой|прочитай|проверь|добавь|исправь|запусти|дай мне|öffne|lies|behebe|starte|gib mir|"
    r"abre|lee|"
    r"comprueba|añade|arregla|ejecuta|dame|lis|vérifie|ajoute|donne-moi)\b"
    r"|^(?:再|先|请)*(?:看|解释|比较|检查|打开|读|运行|修复|给我)"
    r"|(?:調べて|読んで|確認して|見て|教えて|比べて|直して|開いて)(?:ください)?。?$"
    r"|^(?:انظر|افتح|اقرأ|تحقق|راجع|قارن|اشرح|أصلح|شغل|أعطني)\b|\bbitte\b.*(?:en|ern)[.!]?$",
    re.IGNORECASE,
)
_for_me = re.compile(r"\b(?:(?:let me|me) know|tell me|show me|print me|for me)\b", re.IGNORECASE)
_for_good = re.compile(
    r"\b(?:every|each|all|always|never|any|whenever|per|only|jede\w*|alle\w*|immer|nie|nur|cada|tod[oa]s?|siempre|nunca|"
    r"sólo|chaque|tous|toutes|"
    r"toujours|jamais|кажд\w+|все\w*|всегда)\b|每|所有|总|都|すべて|毎|必ず|كل",
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
_courtesy = AnyCase(
    r"\b(?:sorry|oops|pardon|apologies|entschuldigung|disculpa|siento|извини\w*|hello|hi|hey|hiya|good|great|"
    r"nice|fine|cool|perfect|excellent|awesome|super|well|done|work|job|morning|afternoon|evening|"
    r"night|no (?:hurry|rush)|thanks?|thank|thx|cheers|you|much|very|so|that|this|is|it|its|looks?|lgtm|ok(?:ay)?|yes|"
    r"yep|yeah|sure|right|please|pls|go|"
    r"going|ahead|on|continue|carry|proceed|next|one|step|keep|again|more|now|then|and|the|with|for|a|let|us|lets|move|back|"
    r"bye|see|later|hallo|guten|tag|moin|danke|dankeschön|vielen|dank|bitte|weiter|mach|machen|gut|schön|prima|ja|so|das|ist|"
    r"nächste[rsn]?|hola|buenos|buenas|días|tardes|gracias|muchas|por|favor|sigue|seguimos|adelante|vale|bien|muy|siguiente|"
    r"bonjour|merci|beaucoup|suivant|continuez|oui|"
    r"привет|здравствуйте|спасибо|большое|пожалуйста|дальше|продолжай|продолжайте|хорошо|отлично|да|ок|следующий|следующая|"
    r"далее)\b"
    r"|抱歉|对不起|すみません|عذرا|谢谢|感谢|你好|您好|继续|请|好的|好|很|不错|下一个|下一步|辛苦了|吧|了|，|。"
    r"|ありがとう|ございます|こんにちは|おはよう|続けて|お願い|します|ください|次|どうぞ|はい|了解|です|よろしく"
    r"|شكرا|شكرًا|مرحبا|مرحبًا|أهلا|تابع|استمر|واصل|من فضلك|حسنا|حسنًا|ممتاز|نعم|التالي|جزيلا",
)
_left = re.compile(r"[^\W_]")
# Addresses, paths, ids: their words are names, and change nothing.
_names = re.compile(r"`[^`\n]*`|[!-~]*[@/_0-9#][!-~]*|[A-Za-z]+\.[A-Za-z][!-~]*")
_question = re.compile(r"[?？؟][\"'”’)\]]*$")
# Whoever asks which, where or why suggests nothing.
_open_question = re.compile(
    r"(?:^|[,:;] )(?:and |but |so |und |y |et )?(?:what|which|where|who|why|how|when|was|welche\w*|wo|wer|warum|wie|"
    r"wann|qué|cuál\w*|dónde|"
    r"quién|por qué|cómo|cuándo|que|quel\w*|où|qui|pourquoi|comment|quand|что|како\w+|где|кто|почему|как|когда)\b|什么|"
    r"哪|谁|为什么|怎么"
    r"|何|どこ|誰|なぜ|どう|ما |أين|من |لماذا|كيف",
    re.IGNORECASE,
)
# Nothing became different, or it is asked what did.
_unchanged = re.compile(
    r"\b(?:nothing|never|not|n't|what|whatever|who|anything|has|have|had) (?:\w+ )?chang(?:ed|ing)\b|\bunchanged\b|"
    r"\bunverändert\b|"
    r"\bnichts (?:hat sich )?geändert\b|\bnada (?:ha )?cambi\w+|\brien n'a changé\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=16_384)
def tells_a_change(text: str) -> bool:
    """Whether a statement reads as if something became different, or as a denial."""
    return corrects(text) or _weak.search(text) is not None


@lru_cache(maxsize=16_384)
def corrects(text: str) -> bool:
    """Whether a statement reads as a change of something said before."""
    return _says(_strong, _unchanged.sub(" ", _names.sub(" ", text)))


def _says(phrases: AnyCase, text: str) -> bool:
    """Whether one of the phrases stands in a text and is not itself forbidden there."""
    return any(_forbidden.search(text, 0, match.start()) is None for match in phrases.finditer(text))


@lru_cache(maxsize=16_384)
def points_back(text: str) -> bool:
    """Whether a statement has a word that stands for something said before."""
    return _anaphora.search(text) is not None


@lru_cache(maxsize=16_384)
def withdraws(text: str) -> bool:
    """Whether a statement reads as if something were taken back."""
    return _says(_withdrawal, _names.sub(" ", text))


@lru_cache(maxsize=16_384)
def orders_work(text: str) -> bool:
    """Whether a statement reads like an order about the work at hand, which changes nothing that was demanded before."""
    return _at_hand.search(text) is not None and not speaks_of_words(text)


@lru_cache(maxsize=16_384)
def asks_for_now(text: str) -> bool:
    """Whether a statement asks for something to be done once, or only tells what someone thinks: nothing that lasts."""
    if _for_me.search(text) is not None:
        return True
    at_once = _for_now.search(text) is not None or orders_work(text)
    return at_once and _for_good.search(text) is None


@lru_cache(maxsize=16_384)
def speaks_of_words(text: str) -> bool:
    """Whether a statement speaks of something that was said: a rule, a wish, "what I told you"."""
    return _of_words.search(text) is not None


@lru_cache(maxsize=16_384)
def only_asks(text: str) -> bool:
    """Whether a statement is a question, and none that suggests a change."""
    if _question.search(text) is None:
        return False
    return _open_question.search(text) is not None or not (corrects(text) or withdraws(text))


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
    told = 0
    for match in _courtesy.finditer(text):
        if _left.search(text, told, match.start()) is not None:
            return False
        told = match.end()
    return _left.search(text, told) is None
