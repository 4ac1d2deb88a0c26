"""A pass-through that does nothing else: `python -m benchmarks.gateway.pass_through PORT UPSTREAM`.

The same server and client as the gateway's, and no thought about what passes: the floor that any such gateway stands on.
"""

from __future__ import annotations

import sys
from typing import Any

import aiohttp
import uvicorn


class PassThrough:
    """Reads a request whole, sends it on, streams the answer back."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise RuntimeError("only HTTP is passed on")
        if self._session is None:
            connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None)
            self._session = aiohttp.ClientSession(auto_decompress=False, connector=connector, timeout=timeout)
        chunks: list[bytes] = []
        while True:
            message = await receive()
            chunks.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        headers = {"content-type": "application/json"}
        target = self._upstream + scope["path"]
        async with self._session.request(scope["method"], target, data=b"".join(chunks) or None, headers=headers) as answer:
            kind = answer.headers.get("content-type", "").encode()
            await send({"type": "http.response.start", "status": answer.status, "headers": [(b"content-type", kind)]})
            async for chunk in answer.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


if __name__ == "__main__":
    uvicorn.run(
        PassThrough(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False, lifespan="off"
    )
