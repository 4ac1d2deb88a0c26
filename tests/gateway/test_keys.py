"""A gateway with keys serves who has one, as the tenant it belongs to, and passes no key on."""

from __future__ import annotations

import logging
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest
from multidict import CIMultiDict
from tests.gateway.client import ENDPOINTS, HISTORY, WIRES, base_fields, person
from yarl import URL

from threadkeep.dialects import find_dialect
from threadkeep.errors import BadInput, CannotListen
from threadkeep.gateway.conversation.conversations import RecordedConversations
from threadkeep.gateway.http.exchange import Call
from threadkeep.gateway.http.keys import Keys, KeysFile, admit, digest_key, make_key
from threadkeep.gateway.http.server import serve

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.doubles.wires import WireName
    from tests.gateway.conftest import Proxy, ProxyWith

    from threadkeep import Threadkeep
    from threadkeep.gateway.conversation.proxy_interface import Conversations

pytestmark = pytest.mark.anyio

ALICE, BOB = "tkk_alice-key", "tkk_bob-key"
KEYS = Keys({digest_key(ALICE): "alice", digest_key(BOB): "bob"})
BODY = b'{"input": "hi"}'


async def post(proxy: Proxy, path: str, headers: Mapping[str, str]) -> int:
    async with proxy.client.post(proxy.url + path, data=BODY, headers=headers) as answer:
        await answer.read()
        return answer.status


@pytest.mark.parametrize(
    ("path", "headers", "passed"),
    [
        ("/v1/responses", {"X-Threadkeep-Key": ALICE, "Authorization": "Bearer sk"}, [(b"authorization", b"Bearer sk")]),
        (f"/k/{ALICE}/v1/responses", {"Authorization": "Bearer sk"}, [(b"authorization", b"Bearer sk")]),
        (f"/k/{ALICE}/responses", {"X-Api-Key": "sk"}, [(b"x-api-key", b"sk")]),
        ("/v1/responses", {"Authorization": f"Bearer {ALICE}"}, []),
        ("/v1/responses", {"X-Api-Key": ALICE}, []),
        ("/v1/responses", {"X-Api-Key": ALICE, "Authorization": "Bearer sk"}, [(b"authorization", b"Bearer sk")]),
        ("/v1/responses", {"Authorization": f"bearer  {ALICE}", "X-Api-Key": "sk"}, [(b"x-api-key", b"sk")]),
    ],
)
async def test_a_key_is_taken_from_each_of_its_places(
    proxy_with: ProxyWith, path: str, headers: dict[str, str], passed: list[tuple[bytes, bytes]]
) -> None:
    """The tenant is known, the provider's credential passes, and the key reaches neither provider nor conversation."""
    async with proxy_with(keys=KEYS) as proxy:
        assert await post(proxy, path, headers) == 200
        [seen], [incoming] = proxy.provider.seen, proxy.script.opened
        assert proxy.script.asked == [("alice", "responses")]
    assert (seen.target, seen.named(b"authorization", b"x-api-key", b"x-threadkeep-key")) == ("/v1/responses", passed)
    assert ALICE not in f"{seen}{dict(incoming.headers)}{incoming.path}"


MADE = make_key()
CHOSEN = "a-key.of-my-own-choice"
# Where a key of a gateway can stand in a request, beside the provider's credential: a path, a query, headers.
PLACES: dict[str, tuple[str, str, list[tuple[str, str]]]] = {
    "url": ("/k/{key}", "", []),
    "own header": ("", "", [("X-Threadkeep-Key", "{key}")]),
    "bearer": ("", "", [("Authorization", "Bearer {key}")]),
    "bearer twice": ("", "", [("Authorization", "Bearer {key}"), ("Authorization", "Bearer {key}")]),
    "basic": ("", "", [("Authorization", "Basic {base64}")]),
    "api key": ("", "", [("X-Api-Key", "{key}")]),
    "other api key": ("", "", [("Api-Key", "{key}")]),
    "referer": ("", "", [("Referer", "http://127.0.0.1:4142/k/{key}/v1/responses?a=b")]),
    "cookie": ("", "", [("Cookie", "a=b; key={key}; c=d")]),
    "session": ("", "", [("X-Session-Id", "{key}")]),
    "query": ("", "key={key}", []),
    "encoded query": ("", "key={encoded}", []),
}
ADMITTING = ("url", "own header", "bearer", "bearer twice", "api key")


@pytest.mark.parametrize("key", [MADE, CHOSEN], ids=["made here", "chosen"])
@pytest.mark.parametrize("path", ["/v1/responses", "/v1/models"])
async def test_a_key_in_any_two_places_is_taken_out_of_both(
    proxy_with: ProxyWith, caplog: pytest.LogCaptureFixture, path: str, key: str
) -> None:
    """What the provider, the conversation and the log get holds no key; what stands beside the keys is there still."""
    caplog.set_level(logging.DEBUG)
    spellings = {
        "key": key,
        "base64": b64encode(f"user:{key}".encode()).decode(),
        "encoded": "".join(f"%{each:02x}" for each in key.encode()),
    }
    wrong: dict[tuple[str, str], object] = {}
    async with proxy_with(keys=Keys({digest_key(MADE): "alice", digest_key(CHOSEN): "alice"})) as proxy:
        for first, second in ((one, other) for one in ADMITTING for other in PLACES):
            (before, query, headers), (before_2, query_2, headers_2) = PLACES[first], PLACES[second]
            target = f"{before or before_2}{path}?" + "&".join(part for part in ("x=1", query, query_2, "y=2") if part)
            url = URL(proxy.url + target.format(**spellings), encoded=True)
            sent = [(name, value.format(**spellings)) for name, value in [*headers, *headers_2, ("X-Other", "kept")]]
            async with proxy.client.post(url, data=BODY, headers=CIMultiDict(sent)) as answer:
                await answer.read()
            seen = proxy.provider.seen.pop() if answer.status == 200 else None
            heard = [(dict(incoming.headers), incoming.path) for incoming in proxy.script.opened]
            told = f"{seen}{heard}{caplog.text}"
            leaked = [spelt for spelt in spellings.values() if spelt in told]
            passed = (seen.target, seen.named(b"x-other")) if seen else answer.status
            if leaked or passed != (f"{path}?x=1&y=2", [(b"x-other", b"kept")]):
                wrong[first, second] = leaked, passed
            proxy.script.opened.clear()
            caplog.clear()
    assert wrong == {}


@pytest.mark.parametrize("path", ["/v1/files/KEY", "/v1/k/KEY/responses", "/v1/files/KEY.txt"])
async def test_a_key_elsewhere_in_the_path_is_refused(proxy_with: ProxyWith, path: str) -> None:
    """It cannot be taken out without asking for something else."""
    path = path.replace("KEY", MADE)
    async with proxy_with(keys=Keys({digest_key(MADE): "alice"})) as proxy:
        async with proxy.client.get(proxy.url + path, headers={"X-Threadkeep-Key": MADE}) as answer:
            told = await answer.json()
        assert (answer.status, told["error"]["code"], proxy.provider.seen) == (400, "gateway_key_in_path", [])


@pytest.mark.parametrize("wire", WIRES)
async def test_no_key_is_found_in_the_store(tk: Threadkeep, store_file: Path, proxy_with: ProxyWith, wire: WireName) -> None:
    """Not in the file, nor in the log beside it, whatever headers and URLs a conversation is known by."""
    conversations = RecordedConversations(tk, find_dialect(wire))

    async def of(tenant: str | None, dialect: str) -> Conversations:
        return conversations

    places = ("own header", "bearer", "api key", "referer", "session", "cookie")
    headers = [(name, value.format(key=MADE)) for place in places for name, value in PLACES[place][2]]
    body = {**base_fields(wire), HISTORY[wire]: [person(wire, "A question.")]}
    body.pop("head", None)
    async with proxy_with(keys=Keys({digest_key(MADE): "alice"}), conversations=of) as proxy:
        url = f"{proxy.url}/k/{MADE}/v1{ENDPOINTS[wire]}?key={MADE}"
        async with proxy.client.post(url, json=body, headers=CIMultiDict(headers)) as answer:
            assert answer.status == 200
        await conversations.close()
    written = b"".join(file.read_bytes() for file in store_file.parent.iterdir() if file.is_file())
    assert (b"A question." in written, MADE.encode() in written) == (True, False)


@pytest.mark.parametrize(
    "path", ["/v1/responses", "/v1/messages", "/v1/models", "/unknown", "/k//v1/responses", "/k/wrong/v1/models"]
)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer sk"},
        {"X-Threadkeep-Key": ""},
        {"X-Threadkeep-Key": "wrong", "Authorization": f"Bearer {ALICE}"},
        {"X-Threadkeep-Key": digest_key(ALICE)},
    ],
)
async def test_without_a_key_nothing_is_served(proxy_with: ProxyWith, path: str, headers: dict[str, str]) -> None:
    """No key, a wrong key and the digest of a key all get 401."""
    if path.startswith("/k/") and "Bearer tkk" in str(headers):
        headers = {}
    async with proxy_with(keys=KEYS) as proxy:
        assert await post(proxy, path, headers) == 401
        assert (proxy.provider.seen, proxy.script.opened) == ([], [])


async def test_the_lack_of_a_key_is_told_in_the_dialect(proxy_with: ProxyWith) -> None:
    """A client of Anthropic reads it as its provider's error."""
    async with proxy_with(keys=KEYS) as proxy, proxy.client.post(f"{proxy.url}/v1/messages", data=BODY) as answer:
        told = await answer.json()
    assert (told["type"], told["error"]["type"], told["error"]["code"]) == (
        "error",
        "authentication_error",
        "gateway_key_required",
    )


async def test_two_keys_are_two_tenants(proxy_with: ProxyWith) -> None:
    """Each request is decided by the conversations of its own tenant."""
    async with proxy_with(keys=KEYS) as proxy:
        for key in (ALICE, BOB, ALICE):
            assert await post(proxy, "/v1/messages", {"X-Threadkeep-Key": key}) == 200
        assert proxy.script.asked == [("alice", "messages"), ("bob", "messages"), ("alice", "messages")]


async def test_a_gateway_without_keys_forwards_none(proxy: Proxy) -> None:
    """A client set up for a gateway with keys works without them, and its key still goes nowhere."""
    assert await post(proxy, f"/k/{ALICE}/v1/responses", {"X-Threadkeep-Key": BOB, "Authorization": f"Bearer {ALICE}"}) == 200
    [seen] = proxy.provider.seen
    assert (seen.target, seen.named(b"x-threadkeep-key", b"authorization")) == (
        "/v1/responses",
        [(b"authorization", f"Bearer {ALICE}".encode())],
    )
    assert proxy.script.asked == [(None, "responses")]


async def test_with_keys_any_name_of_the_host_is_served(proxy_with: ProxyWith) -> None:
    """Who has a key may call the gateway as others on its network do; a page from elsewhere still may not."""
    async with proxy_with(keys=KEYS) as proxy:
        key = {"X-Threadkeep-Key": ALICE, "Host": "gateway.example"}
        assert await post(proxy, "/v1/responses", key) == 200
        assert await post(proxy, "/v1/responses", {**key, "Origin": "https://evil.example"}) == 403


async def test_probes_need_no_key_and_metrics_do(proxy_with: ProxyWith) -> None:
    """Whether the gateway lives is no secret; what it counts is its tenants' affair."""
    statuses = {}
    async with proxy_with(keys=KEYS) as proxy:
        for path in ("/healthz", "/readyz", "/metrics"):
            async with proxy.client.get(proxy.url + path) as answer:
                statuses[path] = answer.status
        async with proxy.client.get(f"{proxy.url}/metrics", headers={"X-Threadkeep-Key": ALICE}) as answer:
            statuses["with a key"] = answer.status
    assert statuses == {"/healthz": 200, "/readyz": 200, "/metrics": 401, "with a key": 200}


async def test_a_public_address_is_tried_where_keys_are_asked_for(proxy: Proxy) -> None:
    """With keys an address that is not loopback is refused by the system, if it is not there, and no longer by the gateway."""
    with pytest.raises(CannotListen):
        await serve(proxy.app, host="192.0.2.1", port=0, on_ready=lambda url: None, has_keys=True)


def test_a_repeated_key_header_must_agree() -> None:
    """Two keys of two tenants in one request are none."""
    headers = [(b"x-threadkeep-key", ALICE.encode()), (b"x-threadkeep-key", BOB.encode())]
    assert admit(Call(method="GET", path=b"/v1/models", query=b"", headers=headers), KEYS) is None


def test_keys_are_random_and_kept_as_digests(tmp_path: Path) -> None:
    """Two keys are never the same; a file of digests is read back."""
    key = make_key()
    assert key != make_key()
    file = tmp_path / "keys.toml"
    file.write_text(f'[keys]\n"{digest_key(key)}" = "team.one"\n')
    assert (KeysFile(file).tenant_of(key), KeysFile(file).tenant_of(f"{key}x")) == ("team.one", None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[keys]\n",
        "keys = 1",
        "[keys]\nplain = 'alice'",
        f"[keys]\n'{digest_key('k')}' = 'a b'",
        f"[keys]\n'{digest_key('k')}' = 7",
        f"[keys]\n'{digest_key('k')}' = 'a'\n[other]\nx = 1",
        "[keys",
    ],
)
def test_a_file_that_is_not_one_of_keys_is_refused(tmp_path: Path, text: str) -> None:
    """A mistake in the file is said before anything is served."""
    file = tmp_path / "keys.toml"
    file.write_text(text)
    with pytest.raises(BadInput):
        KeysFile(file)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """So is one that cannot be read."""
    with pytest.raises(BadInput):
        KeysFile(tmp_path / "none.toml")


async def test_a_changed_file_of_keys_counts_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A new key opens the door, one that was taken out no longer; while the file cannot be read, those from before do."""
    path = tmp_path / "keys.toml"
    path.write_text(f'[keys]\n"{digest_key(ALICE)}" = "alice"\n')
    keys = KeysFile(path)
    assert [keys.tenant_of(key) for key in (ALICE, BOB)] == ["alice", None]
    path.write_text(f'[keys]\n"{digest_key(BOB)}" = "bob-and-others"\n')
    assert [keys.tenant_of(key) for key in (ALICE, BOB)] == [None, "bob-and-others"]
    path.write_text("[keys\n")
    assert [keys.tenant_of(key) for key in (ALICE, BOB)] == [None, "bob-and-others"]
    assert [record.message[:31] for record in caplog.records] == ["the keys are those from before:"]


@pytest.mark.parametrize("last", ["[keys]\n", "", "# revoked\n", None])
async def test_the_last_key_can_be_taken_back(tmp_path: Path, caplog: pytest.LogCaptureFixture, last: str | None) -> None:
    """A file that is emptied or deleted while the gateway serves lets nobody in, until a key stands in it again."""
    path = tmp_path / "keys.toml"
    path.write_text(f'[keys]\n"{digest_key(ALICE)}" = "alice"\n')
    keys = KeysFile(path)
    assert keys.tenant_of(ALICE) == "alice"
    path.unlink()
    if last is not None:
        path.write_text(last)
    assert [keys.tenant_of(ALICE), keys.tenant_of(ALICE)] == [None, None]
    assert [record.message for record in caplog.records] == [f"{path} holds no key any more; nobody is let in until it does"]
    path.write_text(f'[keys]\n"{digest_key(BOB)}" = "bob"\n')
    assert [keys.tenant_of(key) for key in (ALICE, BOB)] == [None, "bob"]
