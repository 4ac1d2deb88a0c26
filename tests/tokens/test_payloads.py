"""What in an item is not read as text, in each dialect, and what it is counted as."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.tokens import count_visible_bytes, estimate_bytes, estimate_item

FLAT = 7_373


def raw(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def encoded(data: bytes) -> str:
    return b64encode(data).decode()


def message(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": list(parts)}


def image(data: bytes, *, media: str = "image/png", **more: object) -> dict[str, Any]:
    return {"type": "input_image", "image_url": f"data:{media};base64,{encoded(data)}", **more}


def counted(item: object, *payloads: str) -> int:
    """What stands for the payloads, once everything around them is taken off."""
    return count_visible_bytes(raw(item)) - len(raw(item)) + sum(map(len, payloads))


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(900)


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + bytes(900)


def jpeg(width: int, height: int) -> bytes:
    exif = b"\xff\xe1" + struct.pack(">H", 60_000) + bytes(59_998)
    frame = b"\xff\xc2" + struct.pack(">HBHH", 17, 8, height, width)
    return b"\xff\xd8" + exif + b"\xff\xff" + exif + b"\xff\xc4" + struct.pack(">H", 4) + b"\0\0" + frame + bytes(900)


def webp(chunk: bytes, rest: bytes) -> bytes:
    return b"RIFF" + bytes(4) + b"WEBP" + chunk + bytes(4) + rest + bytes(900)


def webp_lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", width, height))


def webp_lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", width - 1 | height - 1 << 14))


def webp_extended(width: int, height: int) -> bytes:
    return webp(b"VP8X", bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"))


@pytest.mark.parametrize("make", [png, gif, jpeg, webp_lossy, webp_lossless, webp_extended])
@pytest.mark.parametrize(
    ("width", "height", "patches"), [(1, 1, 1), (32, 32, 1), (33, 64, 4), (1_000, 700, 704), (9_000, 9_000, 10_000)]
)
def test_an_image_in_original_detail_costs_its_patches(make: Any, width: int, height: int, patches: int) -> None:
    """Four bytes for each 32 pixels square begun, at most 10,000 of them, whatever the format."""
    data = make(width, height)
    assert counted(message(image(data, detail="original")), encoded(data)) == patches * 4


@pytest.mark.parametrize(
    "data", [b"", b"not a picture", png(0, 5), png(5, 5)[:20], b"\xff\xd8" + b"\xff\xe0\0\2" * 90, b"GIF89a\1"]
)
def test_an_image_whose_size_cannot_be_read_costs_the_flat_amount(data: bytes) -> None:
    """Cut, empty and endless headers are no reason to fail."""
    assert counted(message(image(data, detail="original")), encoded(data)) == FLAT


@pytest.mark.parametrize("payload", ["*" * 400, "ü" * 400, "A", "AAAAA"])
def test_a_payload_that_is_no_base64_costs_the_flat_amount(payload: str) -> None:
    """Its length is taken off as it stands in the item."""
    item = message({"type": "input_image", "detail": "original", "image_url": "data:image/png;base64," + payload})
    written = json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode()
    assert abs(count_visible_bytes(written) - (len(written) - len(payload) + FLAT)) <= len(payload.encode()) - len(payload)


def test_several_images_in_one_item_are_each_counted() -> None:
    """Two in original detail and one without, in an output and not a message."""
    large, small, other = png(640, 640), gif(64, 32), jpeg(10, 10)
    item = {
        "type": "function_call_output",
        "call_id": "c",
        "output": [image(large, detail="original"), image(small, detail="original"), image(other, detail="high")],
    }
    assert counted(item, *map(encoded, (large, small, other))) == (400 + 2) * 4 + FLAT


@pytest.mark.parametrize(
    ("url", "discounted"),
    [
        ("DATA:Image/PNG;charset=utf-8;BASE64,", True),
        ("data:image/png;base64,", True),
        ("data:image/svg+xml;utf8,", False),
        ("data:image/png,", False),
        ("data:text/plain;base64,", False),
        ("https://example.org/;base64,", False),
    ],
)
def test_only_a_base64_image_data_url_is_a_payload(url: str, discounted: bool) -> None:  # noqa: FBT001
    """Markers are matched in any case; any other URL is counted as the text it is."""
    item = message({"type": "input_image", "image_url": url + "A" * 9_000})
    assert count_visible_bytes(raw(item)) == len(raw(item)) - (9_000 - FLAT if discounted else 0)


def test_each_dialect_has_its_own_place_for_an_image() -> None:
    """Chat Completions nests the URL and its detail, Messages has a source; tool results may hold either."""
    data = png(320, 320)
    url = f"data:image/png;base64,{encoded(data)}"
    chat = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url, "detail": "original"}}]}
    source = {"type": "base64", "media_type": "image/png", "data": encoded(data)}
    messages = {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "image", "source": source}]}]}
    assert (counted(chat, encoded(data)), counted(messages, encoded(data))) == (400, FLAT)


def test_an_image_quoted_in_a_text_is_text() -> None:
    """What a model reads character by character costs what it is long."""
    item = raw(message({"type": "input_text", "text": raw(image(png(9, 9))).decode()}))
    assert count_visible_bytes(item) == len(item)


def test_an_encoder_that_escapes_slashes_makes_an_image_no_dearer() -> None:
    """Each slash of its base64 stands as two bytes in such an item."""
    item = message({"type": "input_image", "image_url": "data:image/png;base64," + "////" * 5_000})
    assert count_visible_bytes(raw(item).replace(b"//", rb"\/\/")) == count_visible_bytes(raw(item))


def wav(seconds: int, *, rate: int) -> bytes:
    body = bytes(seconds * rate)
    junk = b"JUNK" + struct.pack("<I", 3) + bytes(4)
    fmt = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate // 2, rate, 2, 16)
    return b"RIFF" + struct.pack("<I", 48 + len(body)) + b"WAVE" + junk + fmt + b"data" + struct.pack("<I", len(body)) + body


def test_a_sound_costs_ten_tokens_a_second() -> None:
    """By the byte rate of a WAV file; any other file is taken to have 4,000 bytes a second."""
    spoken, packed = encoded(wav(3, rate=32_000)), encoded(b"OggS" + bytes(39_996))
    url = message({"type": "input_audio", "audio_url": f"data:audio/wav;base64,{spoken}"})
    nested = {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": packed, "format": "ogg"}}]}
    assert (counted(url, spoken), counted(nested, packed)) == (31 * 4, 101 * 4)


def test_a_sound_never_costs_more_than_its_length() -> None:
    """A header that claims one byte a second does not make an hour of it."""
    slow = encoded(wav(1, rate=1) + bytes(3_000))
    item = message({"type": "input_audio", "audio_url": f"data:audio/wav;base64,{slow}"})
    assert counted(item, slow) == len(slow)


@pytest.mark.parametrize("kind", ["reasoning", "compaction", "context_compaction"])
def test_a_sealed_item_costs_what_is_inside_its_envelope(kind: str) -> None:
    """Three quarters of the content less 650 bytes, whatever else the item says."""
    item = {"type": kind, "id": "x" * 500, "encrypted_content": "A" * 4_000}
    assert estimate_item(raw(item)) == estimate_bytes(4_000 * 3 // 4 - 650)


@pytest.mark.parametrize(("length", "size"), [(0, 0), (1, 1), (16, 9), (17, 10), (4_000, 2_250)])
def test_a_sealed_part_costs_nine_sixteenths(length: int, size: int) -> None:
    """In a function's output or a message between agents."""
    sealed = "A" * length
    part = {"type": "encrypted_content", "encrypted_content": sealed}
    output = {"type": "function_call_output", "call_id": "c", "output": [part]}
    mail = {"type": "agent_message", "author": "a", "recipient": "b", "content": [part]}
    assert (counted(output, sealed), counted(mail, sealed)) == (size, size)


@pytest.mark.parametrize(
    "hostile",
    [
        b'{"image_url":' + b"[" * 100_000,
        b'{"image_url":"data:image/png;base64,AA',
        b'{"image_url":"\xff"}',
        b'{"type":["reasoning"],"encrypted_content":"AAAA"}',
        b'["image",{"type":{"image":1},"source":[]}]',
        b'{"type":"reasoning","encrypted_content":7}',
        b'{"image_url":{"url":{"url":"data:"}},"input_audio":{"data":null},"audio_url":[]}',
        b'{"image_url":' + b"9" * 5_000 + b"}",
    ],
)
def test_what_cannot_be_read_counts_as_text(hostile: bytes) -> None:
    """Neither depth, nor cut JSON, nor wrong types, nor endless numbers are refused."""
    assert count_visible_bytes(hostile) == len(hostile)


def test_an_image_beside_half_a_character_is_still_an_image() -> None:
    """Clients cut text between the halves of a surrogate pair."""
    payload = "A" * 9_000
    item = raw(
        message(
            {"type": "input_text", "text": "\ud83d"}, {"type": "input_image", "image_url": "data:image/png;base64," + payload}
        )
    )
    assert count_visible_bytes(item) == len(item) - len(payload) + FLAT


@given(
    st.binary(max_size=60),
    st.sampled_from([b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBPVP8", b"RIFF\0\0\0\0WAVE"]),
)
def test_any_header_has_a_cost(tail: bytes, head: bytes) -> None:
    """At most 10,000 patches for a picture, whatever its header claims."""
    assert 4 <= counted(message(image(head + tail, detail="original")), encoded(head + tail)) <= 40_000
