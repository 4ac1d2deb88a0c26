"""What in an item is not read as text, in each dialect, and what it is counted as."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

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


PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(900)


@pytest.mark.parametrize("data", [PICTURE, b"", b"not a picture"])
def test_an_image_costs_a_flat_amount(data: bytes) -> None:
    """Whatever its bytes and the detail asked for; its base64 is not read by the model."""
    assert counted(message(image(data, detail="original")), encoded(data)) == FLAT


@pytest.mark.parametrize("payload", ["*" * 400, "ü" * 400, "A", "AAAAA"])
def test_a_payload_that_is_no_base64_costs_the_flat_amount(payload: str) -> None:
    """Its length is taken off as it stands in the item."""
    item = message({"type": "input_image", "detail": "original", "image_url": "data:image/png;base64," + payload})
    written = json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode()
    assert abs(count_visible_bytes(written) - (len(written) - len(payload) + FLAT)) <= len(payload.encode()) - len(payload)


def test_several_images_in_one_item_are_each_counted() -> None:
    """In an output and not a message."""
    item = {"type": "function_call_output", "call_id": "c", "output": [image(PICTURE), image(PICTURE + b"2")]}
    assert counted(item, encoded(PICTURE), encoded(PICTURE + b"2")) == 2 * FLAT


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
    """Chat Completions nests the URL, Messages has a source, Gemini inline data; tool results may hold any."""
    data = PICTURE
    url = f"data:image/png;base64,{encoded(data)}"
    chat = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
    source = {"type": "base64", "media_type": "image/png", "data": encoded(data)}
    messages = {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "image", "source": source}]}]}
    inline = {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": encoded(data)}}]}
    snake = {"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": encoded(data)}}]}
    assert (counted(chat, encoded(data)), counted(messages, encoded(data))) == (FLAT, FLAT)
    assert (counted(inline, encoded(data)), counted(snake, encoded(data))) == (FLAT, FLAT)


@pytest.mark.parametrize(("media", "is_counted"), [("audio/mp3", True), ("application/pdf", False)])
def test_inline_data_of_gemini_may_hold_other_media(media: str, *, is_counted: bool) -> None:
    """A sound counts by its length; of anything else the bytes count as they stand."""
    data = encoded(bytes(39_999))
    item = {"role": "user", "parts": [{"inlineData": {"mimeType": media, "data": data}}]}
    assert counted(item, data) == (4 * 100 if is_counted else len(data))


def test_an_image_quoted_in_a_text_is_text() -> None:
    """What a model reads character by character costs what it is long."""
    item = raw(message({"type": "input_text", "text": raw(image(PICTURE)).decode()}))
    assert count_visible_bytes(item) == len(item)


def test_an_encoder_that_escapes_slashes_makes_an_image_no_dearer() -> None:
    """Each slash of its base64 stands as two bytes in such an item."""
    item = message({"type": "input_image", "image_url": "data:image/png;base64," + "////" * 5_000})
    assert count_visible_bytes(raw(item).replace(b"//", rb"\/\/")) == count_visible_bytes(raw(item))


def test_a_sound_costs_ten_tokens_a_second() -> None:
    """At 4,000 bytes a second."""
    sound = encoded(b"OggS" + bytes(39_996))
    url = message({"type": "input_audio", "audio_url": f"data:audio/ogg;base64,{sound}"})
    nested = {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": sound, "format": "ogg"}}]}
    assert (counted(url, sound), counted(nested, sound)) == (101 * 4, 101 * 4)


def test_a_sound_never_costs_more_than_its_length() -> None:
    """A token begun is not dearer than the bytes it stands for."""
    short = encoded(b"Og")
    item = message({"type": "input_audio", "audio_url": f"data:audio/ogg;base64,{short}"})
    assert counted(item, short) <= len(short)


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
