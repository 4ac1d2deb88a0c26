"""An address is told without its password, however it was written.

Of one backend alone: a file's path holds no password.
"""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from threadkeep.cli.store import hide_credentials
from threadkeep.errors import StoreError
from threadkeep.store.addresses import SERVERS
from threadkeep.store.postgres.store import format_location

SIGNS = st.text(alphabet="/@?#:%&=[],. \\'\"éZ2F\t\0", max_size=6)
# Any sign may stand in a password, at its ends too; the words between them are what must not be seen.
PASSWORDS = st.builds(lambda *signs: "{}hush{}mum{}silence{}".format(*signs), SIGNS, SIGNS, SIGNS, SIGNS)
SECRET = re.compile("hush|mum|silence")


def told(address: str) -> str:
    """Return what the store says when it is opened there: its name, or why it cannot be."""
    try:
        return format_location(address)
    except StoreError as error:
        chain: list[BaseException] = [error]
        while (cause := chain[-1].__cause__) is not None:
            chain.append(cause)
        return " ".join(map(str, chain))


@given(
    password=PASSWORDS,
    scheme=st.sampled_from(SERVERS),
    form=st.sampled_from(
        [
            "{scheme}u:{password}@127.0.0.1:1/db",
            "{scheme}{password}@127.0.0.1/db",
            "{scheme}u:{password}@[::1]:5,h2/db?sslmode=require",
            "{scheme}u:{password}@/db?host=/run/postgresql",
            "{scheme}u:{password}@127.0.0.1:1",
            "{scheme}127.0.0.1:1/db?user=u&password={password}",
            "{scheme}127.0.0.1?password={password}",
            "{scheme}u:p{password}",
            "host=h password={password} dbname=db",
            "host=h dbname=db password='{password}'",
        ]
    ),
    written=st.sampled_from([str, quote, lambda text: quote(text, safe="")]),
)
def test_no_spelling_of_an_address_shows_a_password(password: str, scheme: str, form: str, written: object) -> None:
    """Encoded or not, in any place an address has for it: not in a store's name, nor in an error or what caused it."""
    assert callable(written)
    # Without a host behind it, a plain @ in a password is where every driver begins to read the host.
    assume(form != "{scheme}u:p{password}" or "@" not in written(password))
    address = form.format(scheme=scheme, password=written(password))
    assert SECRET.search(told(address)) is None
    if address.startswith(SERVERS):
        assert SECRET.search(hide_credentials(address)) is None


@given(
    password=PASSWORDS.filter(lambda text: "\0" not in text),
    host=st.sampled_from(["db.internal", "127.0.0.1:5432", "[::1]:1", "h1,h2:2"]),
)
def test_an_encoded_password_is_read_whole(password: str, host: str) -> None:
    """What is percent-encoded as the error asks for it is understood: the driver gets the password, we tell the rest."""
    address = f"postgresql://u:{quote(password, safe='')}@{host}/db"
    assert (conninfo_to_dict(address)["password"], format_location(address)) == (password, f"postgresql://{host}/db")


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("postgresql://h/db", "postgresql://h/db"),
        ("postgres://u:p@h/db", "postgresql://h/db"),
        ("postgresql://u@/db?host=/run&port=5", "postgresql://local/db"),
        ("postgresql://", "postgresql://local/"),
        ("postgresql://u:p?#:@h1:1,h2/db", "postgresql://h1:1,h2/db"),
    ],
)
def test_what_can_be_read_in_one_way_is_told(address: str, name: str) -> None:
    """Hosts and database, as they stand."""
    assert (format_location(address), hide_credentials(address)) == (name, name)


@pytest.mark.parametrize(
    "address", ["postgresql://u:a/b@h/db", "postgresql://u:a@b@h/db", "postgresql://u:%zz@h/db", "postgresql://u:word", "host=h"]
)
def test_what_cannot_is_refused_with_how_to_write_it(address: str) -> None:
    """Before anybody is connected to, and without a word of it."""
    with pytest.raises(StoreError) as raised:
        format_location(address)
    assert str(raised.value) == (
        "store postgresql://…: its address cannot be read; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE and percent-"
        "encode special characters in each part: %2F for /, %40 for @, %3F for ?, %23 for #, %25 for %"
    )
