"""The invented world of quillback: nouns, places, people, and the shapes of values its logs are full of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

NOUNS = (
    "reservation",
    "shipment",
    "lot",
    "stock_move",
    "price_list",
    "supplier",
    "stocktake",
    "transfer",
    "return_slip",
    "label",
    "basket",
    "invoice",
    "bin_place",
    "customs_form",
    "delivery_note",
    "reorder_point",
)
AREAS = ("api", "worker", "store", "cli", "pricing", "sync")
FIELDS = (
    "quantity",
    "warehouse_id",
    "expires_on",
    "unit_price",
    "currency",
    "status",
    "version",
    "note",
    "reserved_until",
    "picked_by",
    "weight_grams",
    "batch_code",
    "origin",
    "rounding",
    "source_ref",
    "closed_at",
)
SHOPS = ("bergen", "tromso", "vigo", "cuxhaven", "oban", "brest", "ystad", "gdynia")
BIRDS = ("gannet", "fulmar", "petrel", "skua", "avocet", "dunlin", "godwit", "whimbrel", "curlew", "knot", "kittiwake", "eider")
ZONES = ("shore.example", "harbour.example", "quay.example")
PEOPLE = ("Ragnhild", "Anselm", "Itziar", "Bogdan", "Wenche", "Meiling", "Fergus", "Oluf", "Carme", "Jannike")
GOODS = (
    "anchor chain 8 mm",
    "braided mooring line",
    "bilge pump 12 V",
    "copper antifouling, red",
    "life jacket 150 N",
    "stainless shackle",
    "fender ball A2",
    "navigation light, port",
    "teak oil, 1 l",
    "hand flare, set of 4",
    "deck brush",
    "winch handle",
    "signal horn",
    "marine grease",
    "sail repair tape",
    "chart of the Minch",
)


def camel(noun: str) -> str:
    """Return a snake_case noun as a class would be called."""
    return "".join(part.capitalize() for part in noun.split("_"))


def port(rng: Random) -> str:
    return str(rng.randrange(1100, 9900))


def host(rng: Random) -> str:
    return f"{rng.choice(BIRDS)}-{rng.randrange(1, 60):02d}.{rng.choice(ZONES)}"


def address(rng: Random) -> str:
    return f"10.{rng.randrange(20, 60)}.{rng.randrange(256)}.{rng.randrange(2, 250)}"


def ticket(rng: Random) -> str:
    return f"QBK-{rng.randrange(1200, 8900)}"


def lot_code(rng: Random) -> str:
    return f"LOT-{rng.randrange(10, 99)}{rng.choice('ACDFHKM')}{rng.randrange(10)}-{rng.randrange(2100, 2960)}"


def revision(rng: Random) -> str:
    """Return a short commit id; it begins with a digit, so that it can never be taken for a word."""
    return str(rng.randrange(1, 10)) + "".join(rng.choice("0123456789abcdef") for _ in range(9))


def tenant(rng: Random) -> str:
    return f"T-{rng.randrange(10000, 99999)}-{rng.choice('BDGKPRV')}"


def sku(rng: Random) -> str:
    return f"{rng.choice(('ROP', 'CHN', 'PMP', 'PNT', 'SAF', 'ELC', 'HDW'))}-{rng.randrange(1000, 9999)}-{rng.choice('XSMLB')}"


def version(rng: Random) -> str:
    return f"{rng.randrange(1, 9)}.{rng.randrange(10, 40)}.{rng.randrange(10, 30)}"


def milliseconds(rng: Random) -> str:
    return f"{rng.lognormvariate(2.6, 1.1):.1f} ms"


def seconds(rng: Random, *, about: float) -> str:
    return f"{about * rng.uniform(0.6, 1.7):.2f}s"


def moment(total_ms: int) -> str:
    """Return a time of day on the session's one invented day, from milliseconds after midnight."""
    total_s, ms = divmod(total_ms, 1000)
    minutes, s = divmod(total_s, 60)
    hours, m = divmod(minutes, 60)
    return f"2031-03-18T{hours % 24:02d}:{m:02d}:{s:02d}.{ms:03d}"


def moments(rng: Random, *, count: int, mean_gap_ms: int) -> list[str]:
    """Return `count` rising times as a log would have them."""
    now = rng.randrange(5 * 3_600_000, 20 * 3_600_000)
    found = []
    for _ in range(count):
        now += 1 + int(rng.expovariate(1 / mean_gap_ms))
        found.append(moment(now))
    return found


def exit_text(body: str, *, code: int, took: str) -> str:
    """Return a command's output as the tool reports it."""
    return f"exit code {code}, {took}\n{body}"


def hexadecimal(rng: Random) -> str:
    return f"{rng.randrange(1, 10)}{rng.getrandbits(44):011x}"


# Values by the names that lines use for them.
VALUES: Mapping[str, Callable[[Random], str]] = {
    "port": port,
    "host": host,
    "ticket": ticket,
    "lot_code": lot_code,
    "revision": revision,
    "tenant": tenant,
    "version": version,
    "hexadecimal": hexadecimal,
}
