"""The shapes of planted values, from a bare number to a sentence in quotes. Frozen: see the package's docstring.

Frozen: see the package's docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from uuid import UUID

Shape = Callable[[Random], str]

# None of these stands in any generated work, so that a planted word means only what it was planted for.
WORDS = tuple(
    """abalone acorn almanac amulet anvil apricot arbutus aspen bagpipe balustrade basalt beeswax birchbark bobbin bramble
    bulrush burdock calabash calliope caraway catkin chestnut chicory cinnabar citadel clementine clover cobalt
    coriander cowbell cuckoo damask dewdrop dogwood drumlin dulcimer elderflower ermine fennel fiddlehead flagstone
    foxglove gargoyle geode gherkin gondola gooseberry hawthorn hazelnut heliotrope hopscotch hyssop jackdaw jasper
    juniper kestrel kumquat lapwing larkspur lodestone lupine madrigal mandolin marzipan meadowsweet millrace mistletoe
    moonstone mulberry nettle nutmeg obsidian ocarina oleander pamphlet parsnip periwinkle persimmon pinecone plover
    pomander quartz quince ragwort rosehip saffron samovar sandalwood sarsaparilla snowdrop sorrel starling sycamore
    tamarind tangerine teasel thimble thistle truffle turnstile umber valerian verbena wagtail walnut waxwing wisteria
    woodruff yarrow zither""".split()
)
_GIVEN = (
    "Ingunn",
    "Baldo",
    "Fenella",
    "Kasimir",
    "Odalys",
    "Tancred",
    "Wilhelmina",
    "Zoltan",
    "Eudora",
    "Lucasta",
    "Anatol",
    "Perpetua",
)
_FAMILY = (
    "Vasquez",
    "Ohlendorf",
    "Mbeki",
    "Trevanion",
    "Szabolcsi",
    "Farquhar",
    "Lindqvist",
    "Okonkwo",
    "Bellweather",
    "Castellane",
)
_MONTHS = ("January", "February", "March", "April", "June", "July", "August", "September", "October", "November", "December")
_ODD_FIRST = ("Ål", "Šárka", "Môr", "Çelik", "Ćirić", "Noël", "Œuvre", "Þór", "Łódź")
_ODD_LAST = ("& Søn", "d'Auvergne", "van 't Veld", "O'Dwyer-Sáez", "(Nachf.)", "y Ñuñez", "of Ynys Môn", "+ Filhos")
_PHRASE = (
    ("the last lamp", "every second gull", "one honest bell", "our quiet harbour", "a borrowed ladder", "the patient clerk"),
    ("is out", "comes home", "rings twice", "stays dry", "leans left", "counts again"),
    ("before noon", "without asking", "by candlelight", "on thin ice", "after the rain", "for good measure"),
)


def _pick(*values: str) -> Shape:
    return lambda rng: rng.choice(values)


def _cross(first: tuple[str, ...], second: tuple[str, ...], between: str = "") -> Shape:
    return lambda rng: f"{rng.choice(first)}{between}{rng.choice(second)}"


def number(rng: Random) -> str:
    """A plain number of four or five figures, not a round one."""
    drawn = rng.choice((rng.randrange(1_101, 9_990), rng.randrange(11_003, 98_990)))
    return str(drawn + 1 if drawn % 10 == 0 else drawn)


def two_words(rng: Random) -> str:
    return " ".join(rng.sample(WORDS, 2))


def snake(rng: Random) -> str:
    return "_".join(rng.sample(WORDS, 2))


def path(rng: Random) -> str:
    first, second = rng.sample(WORDS, 2)
    return rng.choice((f"/srv/{first}/{second}", f"{first}/{second}/", f"~/{first}-{second}.dat", f"shared/{first}/{second}.csv"))


def email(rng: Random) -> str:
    return f"{rng.choice(_GIVEN).lower()}.{rng.choice(_FAMILY).lower()}@{rng.choice(WORDS)}.example"


def duration(rng: Random) -> str:
    hours = f"{rng.randrange(3, 23)} h {rng.randrange(11, 59)} min"
    return rng.choice(
        (f"{rng.randrange(13, 97)} minutes", f"{rng.randrange(12, 98)} days", f"{rng.randrange(13, 88)} hours", hours)
    )


def percent(rng: Random) -> str:
    return f"{rng.randrange(3, 97)}.{rng.randrange(1, 10)} %"


def size(rng: Random) -> str:
    return f"{rng.randrange(113, 989)} {rng.choice(('MiB', 'MB', 'GiB'))}"


def clock(rng: Random) -> str:
    return f"{rng.randrange(0, 24):02d}:{rng.randrange(1, 12) * 5:02d}"


def date(rng: Random) -> str:
    return f"{rng.randrange(2, 29)} {rng.choice(_MONTHS)} {rng.randrange(2027, 2034)}"


def iso_date(rng: Random) -> str:
    return f"{rng.randrange(2009, 2034)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"


def timestamp(rng: Random) -> str:
    return f"{iso_date(rng)} {rng.randrange(24):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d}"


def identifier(rng: Random) -> str:
    letters = "".join(rng.choice("BCDFGHJKLMNPQRSTVWXZ") for _ in range(3))
    return rng.choice((f"{letters}{rng.randrange(100, 999)}-{rng.randrange(10, 99)}", str(UUID(int=rng.getrandbits(128)))))


def version(rng: Random) -> str:
    plain = f"{rng.randrange(1, 19)}.{rng.randrange(0, 40)}.{rng.randrange(0, 30)}"
    return rng.choice((plain, f"v{plain}", f"{plain}-rc{rng.randrange(1, 9)}"))


def host(rng: Random) -> str:
    word = rng.choice(WORDS)
    return rng.choice((f"{word}-{rng.randrange(1, 40):02d}", f"{word}.internal", f"node-{word}"))


def colour(rng: Random) -> str:
    return f"#{rng.getrandbits(24):06x}"


def person(rng: Random) -> str:
    return f"{rng.choice(_GIVEN)} {rng.choice(_FAMILY)}"


def phrase(rng: Random) -> str:
    return " ".join(rng.choice(part) for part in _PHRASE)


SHAPES: Mapping[str, Shape] = {
    "number": number,
    "long_number": lambda rng: str(rng.randrange(1_000_001, 89_999_999)),
    "port": lambda rng: str(rng.randrange(20_011, 64_900)),
    "decimal": lambda rng: f"{rng.randrange(0, 4)}.{rng.randrange(1_011, 9_989)}",
    "percent": percent,
    "size": size,
    "duration": duration,
    "clock": clock,
    "date": date,
    "iso_date": iso_date,
    "date_tag": lambda rng: f"{rng.choice(WORDS)}-{iso_date(rng)}",
    "timestamp": timestamp,
    "cron": lambda rng: f"{rng.randrange(1, 59)} {rng.randrange(0, 23)} * * {rng.randrange(0, 6)}",
    "word": lambda rng: rng.choice(WORDS),
    "two_words": two_words,
    "snake": snake,
    "phrase": phrase,
    "path": path,
    "url": lambda rng: f"https://{rng.choice(WORDS)}.example/{rng.choice(WORDS)}/{rng.randrange(2, 9)}",
    "email": email,
    "id": identifier,
    "version": version,
    "host": host,
    "address": lambda rng: f"172.{rng.randrange(17, 31)}.{rng.randrange(256)}.{rng.randrange(2, 250)}",
    "cidr": lambda rng: f"10.{rng.randrange(100, 250)}.{rng.randrange(4, 250)}.0/{rng.randrange(21, 28)}",
    "iface": lambda rng: f"enp{rng.randrange(3, 90)}s{rng.randrange(0, 9)}f{rng.randrange(0, 4)}",
    "doi": lambda rng: f"10.{rng.randrange(5_011, 9_989)}/{rng.choice(WORDS)}.{rng.randrange(1_011, 9_989)}",
    "flag": lambda rng: f"--{rng.choice(WORDS)}-{rng.choice(WORDS)}",
    "colour": colour,
    "person": person,
    "odd_name": _cross(_ODD_FIRST, _ODD_LAST, " "),
    "zh_word": _cross(("青松", "白鹭", "银杏", "石桥", "晨雾"), ("台", "阁", "港", "谷", "舍")),
    "zh_day": _cross(("每周二", "每周三", "每周五", "每周日"), ("凌晨一点", "晚上九点半", "上午十点", "下午四点")),
    "zh_name": _cross(("欧阳", "司徒", "慕容", "诸葛"), ("文静", "志远", "晓梅", "国栋")),
    "de_day": _cross(("zweiten ", "dritten ", "letzten "), ("Dienstag", "Mittwoch", "Donnerstag", "Samstag"), ""),
    "de_word": _cross(("Silber", "Moos", "Nebel", "Kupfer"), ("kranich", "distel", "schleuse", "falter")),
    "es_word": _cross(("golondrina", "azafrán", "candelaria", "romero"), ("norte", "vieja", "brava", "clara"), "-"),
    "es_day": _cross(("martes", "jueves", "sábados", "domingos"), (" a las tres", " al amanecer", " a medianoche")),
    "ja_word": _cross(("朝顔", "千鳥", "若草", "白樺"), ("丸", "計画", "号", "館")),
    "ja_day": _cross(("火曜日の", "水曜日の", "金曜日の"), ("午前九時", "午後三時", "午後五時半")),
    "ja_name": _pick("小笠原", "長谷川", "五十嵐", "二階堂", "早乙女", "神宮寺"),
    "ru_word": _cross(("Северный ", "Тихий ", "Медный "), ("зимородок", "бубенец", "якорь", "орешник")),
    "ru_day": _cross(("по вторникам ", "по четвергам ", "по субботам "), ("ночью", "после обеда", "до полудня")),
    "ru_name": _cross(("Аглая ", "Прохор ", "Таисия "), ("Вознесенская", "Кузьмич", "Белозёрова")),
    "ar_word": _cross(("واحة ", "منارة ", "بستان "), ("الياسمين", "الرمان", "الزيتون")),
    "ar_day": _cross(("يوم الثلاثاء ", "يوم الأربعاء ", "يوم الخميس "), ("صباحا", "بعد الظهر", "مساء")),
    "ar_name": _cross(("سلمى ", "طارق ", "هالة "), ("القحطاني", "البغدادي", "الدمشقي")),
}
