"""Asks whether a gateway answers at an address."""

from __future__ import annotations

from http.client import HTTPException
from urllib.request import ProxyHandler, build_opener

SECONDS = 2.0


def answers(url: str) -> bool:
    """Whether `url` has a gateway that says it is up."""
    # No proxy of the environment: the gateway is on this machine, or is reached directly.
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(f"{url.partition('/k/')[0]}/healthz", timeout=SECONDS) as response:
            return bool(response.status == 200)
    except (HTTPException, OSError, ValueError):
        return False
