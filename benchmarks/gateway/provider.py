"""A provider that does nothing but answer: `python -m benchmarks.gateway.provider PORT`.

Raw asyncio, one fixed answer: what is measured in front of it is not its own work. Asked for the model `bench-slow` it thinks for
a fifth of a second first, which is less than any real one does.
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Final

EVENTS: Final = 20
SLOW: Final = b"bench-slow"
THINKING_SECONDS: Final = 0.2
HEAD_BYTES: Final = 64 * 1024
BODY_BYTES: Final = 64 * 1024 * 1024

_length = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)


def _events() -> list[bytes]:
    chunk = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"bench","choices":[%s]}\n\n'
    first = chunk % b'{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}'
    words = chunk % b'{"index":0,"delta":{"content":"word "},"finish_reason":null}'
    last = chunk % b'{"index":0,"delta":{},"finish_reason":"stop"}'
    return [first, *[words] * EVENTS, last, b"data: [DONE]\n\n"]


STREAM: Final = b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in _events()) + b"0\r\n\r\n"
ANSWER: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + STREAM
NOTHING: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request of a connection, reading its body whole first."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            found = _length.search(head)
            length = min(int(found[1]), BODY_BYTES) if found else 0
            body = await reader.readexactly(length) if length else b""
            if SLOW in body:
                await asyncio.sleep(THINKING_SECONDS)
            writer.write(ANSWER if head.startswith(b"POST") else NOTHING)
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        return
    finally:
        writer.close()


async def serve(port: int) -> None:
    """Serve on loopback until the process is ended."""
    server = await asyncio.start_server(answer, "127.0.0.1", port, limit=HEAD_BYTES)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
