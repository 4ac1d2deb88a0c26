"""Codex's estimate of an item."""

from __future__ import annotations

import json

import pytest
from tests.histories import output, reasoning, said

from threadkeep.tokens import estimate_bytes, estimate_item, estimate_text


def raw(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@pytest.mark.parametrize(("size", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2)])
def test_four_bytes_are_a_token_rounded_up(size: int, tokens: int) -> None:
    """Nothing but nothing is free."""
    assert estimate_bytes(size) == tokens


def test_text_is_counted_in_bytes_and_half_characters_do_no_harm() -> None:
    """A CJK character takes three bytes; half a surrogate pair is counted, not refused."""
    assert (estimate_text("端口"), estimate_text("\ud83d")) == (2, 1)


@pytest.mark.parametrize("length", [4, 400_000])
def test_an_inline_image_costs_the_same_however_long_its_base64_is(length: int) -> None:
    """Each image stands for 7,373 bytes."""
    image = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * length}
    item = {"type": "message", "role": "user", "content": [image, image]}
    without = len(raw(item)) - 2 * length
    assert estimate_item(raw(item)) == estimate_bytes(without + 2 * 7_373)


def test_an_image_inside_an_output_is_counted_like_any_other() -> None:
    """Screenshots of tools are not free."""
    item = {**output("c"), "output": [{"type": "input_image", "image_url": "data:image/jpeg;base64," + "A" * 90_000}]}
    assert estimate_item(raw(item)) == estimate_bytes(len(raw(item)) - 90_000 + 7_373)


@pytest.mark.parametrize(("length", "tokens"), [(100, 0), (866, 0), (4_000, 588), (40_000, 7_338)])
def test_encrypted_reasoning_costs_what_is_inside_its_envelope(length: int, tokens: int) -> None:
    """Three quarters of its length, less 650 bytes, at four bytes a token."""
    assert estimate_item(raw(reasoning("A" * length))) == tokens


def test_talk_about_encrypted_reasoning_is_ordinary_text() -> None:
    """A message that quotes such an item is counted in full."""
    item = raw(said('{"type":"reasoning","encrypted_content":"' + "A" * 4_000 + '"}'))
    assert estimate_item(item) == estimate_bytes(len(item))


def test_reasoning_without_an_envelope_is_ordinary_text() -> None:
    """A null in place of the encrypted content leaves the summary to be counted."""
    item = raw({"type": "reasoning", "encrypted_content": None, "summary": [{"type": "summary_text", "text": "x" * 400}]})
    assert estimate_item(item) == estimate_bytes(len(item))
