"""Values that a tool showed once and a call was given long after: how they look, where they stood, how they were given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Reuse:
    """A value, the line of the output that showed it, and the call that was given it much later."""

    value: str
    line: str
    tool: str
    arguments: dict[str, Any]


def shell(text: str) -> dict[str, Any]:
    return {"cmd": text}


REUSED = (
    # ids and codes, given in every way a call can be given something
    Reuse("wrn-7731-k", "warrant wrn-7731-k issued to the night shift", "exec_command", shell("bin/warrant use wrn-7731-k")),
    Reuse(
        "c0ffee91ab", "image pushed (digest c0ffee91ab, 14 layers)", "exec_command", shell("skopeo inspect reg/app@c0ffee91ab")
    ),
    Reuse("Q7XK2M", "pairing code Q7XK2M; enter it within ten minutes", "pair_device", {"code": "Q7XK2M"}),
    Reuse("tx_90817264", '{"transfer":{"id":"tx_90817264","state":"held"}}', "release", {"transfer_id": "tx_90817264"}),
    Reuse("ses-44a1", "opened ses-44a1 for the audit", "http", {"url": "https://audit.example/v1/ses-44a1/close"}),
    Reuse("88213-B", "shelf 88213-B is free", "sql", {"query": "update shelf set used = true where code = '88213-B'"}),
    Reuse("PRJ-5519", "ticket PRJ-5519 was opened for the outage", "comment", {"ticket": "PRJ-5519", "text": "fixed"}),
    Reuse("0x7fa31c", "crash at 0x7fa31c in the decoder", "exec_command", shell("addr2line -e app 0x7fa31c")),
    # figures
    Reuse("48213", "proxy listens on port 48213", "exec_command", shell("curl http://proxy.local:48213/health")),
    Reuse("31877", "worker started, pid 31877", "exec_command", shell("kill -TERM 31877")),
    Reuse("6104", "invoice total comes to 6104 after rebates", "book", {"amount": 6104}),
    Reuse("0.0375", "the fitted learning rate is 0.0375", "exec_command", shell("train --lr 0.0375 --epochs 3")),
    Reuse("1750", "heap peaked at 1750 MB under load", "exec_command", shell("java -Xmx1750m -jar till.jar")),
    Reuse("219", "the offending row is 219", "edit_sheet", {"row": 219, "column": "B", "text": "0"}),
    Reuse("03:42", "the leak begins at 03:42 every night", "exec_command", shell("journalctl --since 03:42")),
    Reuse("2.17.4", "last version that builds: 2.17.4", "exec_command", shell("pip install ferrule==2.17.4")),
    # plain words
    Reuse("cormorant", "leader elected: cormorant", "exec_command", shell("ssh cormorant uptime")),
    Reuse("saltmarsh", "the tenant behind the errors is saltmarsh", "flush", {"tenant": "saltmarsh"}),
    Reuse("indigo", "active slot is indigo, the other one is drained", "exec_command", shell("switch --slot indigo")),
    Reuse("brackwater", "bucket brackwater created in the north", "exec_command", shell("aws s3 ls s3://brackwater/2031/")),
    Reuse("oyster_bed", "partition oyster_bed holds the orphans", "sql", {"query": "vacuum oyster_bed"}),
    Reuse("Halvorsen", "on call this week: Halvorsen", "page", {"person": "Halvorsen"}),
    Reuse("kestrel", "broker kestrel answered first", "exec_command", shell("kcat -b kestrel:9092 -L")),
    Reuse("gannet-blue", "rollout paused on gannet-blue", "resume", {"rollout": "gannet-blue"}),
    # addresses, places, times
    Reuse("10.44.7.19", "gateway is 10.44.7.19 since the move", "exec_command", shell("ping -c 1 10.44.7.19")),
    Reuse("fe80::7c1:22", "router advertises fe80::7c1:22", "exec_command", shell("ping6 fe80::7c1:22")),
    Reuse("night@quay.example", "alerts go to night@quay.example", "mail", {"to": "night@quay.example", "subject": "done"}),
    Reuse("ftp.skerry.example", "mirror: ftp.skerry.example", "exec_command", shell("lftp -e ls ftp.skerry.example")),
    Reuse("/mnt/spool/violet", "spool mounted at /mnt/spool/violet", "exec_command", shell("df -h /mnt/spool/violet")),
    Reuse("2031-09-17", "certificate expires 2031-09-17", "remind", {"on": "2031-09-17", "text": "renew"}),
    Reuse("17.09.2031", "Zertifikat gültig bis 17.09.2031", "erinnern", {"am": "17.09.2031"}),
    Reuse("eu-fjord-2", "nearest region: eu-fjord-2", "exec_command", shell("terraform apply -var region=eu-fjord-2")),
    Reuse("feat/tidal-lock", "branch with the fix: feat/tidal-lock", "exec_command", shell("git checkout feat/tidal-lock")),
    # names of several words, other scripts
    Reuse("Ida Vestergaard", "account owner: Ida Vestergaard", "assign", {"to": "Ida Vestergaard"}),
    Reuse("Nordre Molo 4", "berth assigned: Nordre Molo 4", "book_berth", {"berth": "Nordre Molo 4"}),
    Reuse("silver heron lane", "pass phrase hint: silver heron lane", "unlock", {"hint": "silver heron lane"}),
    Reuse("Küstenwache Süd", "zuständig: Küstenwache Süd", "melden", {"stelle": "Küstenwache Süd"}),
    Reuse("北港三号", "泊位：北港三号", "reserve", {"berth": "北港三号"}),
    Reuse("潮見坂", "担当拠点は潮見坂", "notify", {"site": "潮見坂"}),
    Reuse("маяк-7", "резервный узел: маяк-7", "exec_command", shell("ssh маяк-7 uptime")),
    Reuse("Якорная", "улица склада: Якорная", "route", {"street": "Якорная"}),
    Reuse("المنارة", "المستودع: المنارة", "route", {"depot": "المنارة"}),
    # inside sentences, programs and messages
    Reuse("Room Bellweather", "free from four: Room Bellweather", "note", {"text": "Meet the crew in Room Bellweather at four."}),
    Reuse("pier 19 north", "the crane is moored at pier 19 north today", "note", {"text": "Book pier 19 north for the crane."}),
    Reuse(
        "seventeen crates", "left on the quay: seventeen crates of rope", "tell", {"message": "Fetch seventeen crates tomorrow."}
    ),
    Reuse("EUR 1,284.50", "open balance EUR 1,284.50 since March", "pay", {"order": "transfer EUR 1,284.50 to the yard"}),
    Reuse("1,917", "counted 1,917 labels twice", "set_count", {"labels": "1,917"}),
    Reuse("14C", "her seat is 14C", "board", {"seat": "14C"}),
    Reuse("38%", "the share of retries settled at 38%", "alarm", {"threshold": "38%"}),
    Reuse(
        "61440",
        "frame buffer needs 61440 bytes",
        "write_file",
        {"path": "conf/frame.toml", "content": "[frame]\nwidth = 8\nbuffer = 61440\n"},
    ),
    Reuse("guillemot", "guillemot", "exec_command", shell("scp notes guillemot:/tmp")),
    Reuse("plover", "name,state\nplover,idle", "exec_command", {"command": ["ssh", "plover", "uptime"]}),
    # structured output
    Reuse("blk-5512", '{"blocks":[{"name":"blk-5512","free":true}]}', "claim", {"block": {"name": "blk-5512"}}),
    Reuse("teal", '  "lane": "teal",', "steer", {"lane": "teal"}),
    Reuse("42817", "| queue | labels | depth | 42817 |", "drain", {"depth": 42817}),
    Reuse("mx-quoin", "NAME=mx-quoin STATE=idle", "exec_command", shell("wake mx-quoin")),
)

# What calls are given all the time and no one will need again: it must take no room.
TRIVIAL = (
    Reuse("parse_header", "src/wire.py:88: def parse_header(raw):", "exec_command", shell("rg -n parse_header src")),
    Reuse("wire.py", "src/wire.py src/frame.py src/page.py", "exec_command", shell("pytest -q tests/wire.py")),
    Reuse("timeout", "    timeout = settings.get('timeout')", "exec_command", shell("rg timeout config")),
    Reuse("retry", "for retry in range(3): pass", "exec_command", shell("rg retry src")),
    Reuse("120", "src/wire.py:120:    return frame", "read", {"path": "src/wire.py", "offset": 120}),
    Reuse("Frame", "class Frame(Base):", "exec_command", shell("rg 'class Frame' src")),
    Reuse("8192", "total 48 4096 4096 220 1337 8192 notes", "exec_command", shell("head -c 8192 data.bin")),
    Reuse("assert", "E   assert left == right", "exec_command", shell("rg assert tests")),
    Reuse("import", "import json", "exec_command", shell("rg import src")),
    Reuse("verbose", "usage: tool [--verbose] FILE", "exec_command", shell("tool --verbose notes")),
)
