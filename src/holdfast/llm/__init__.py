"""The port to models, and what speaks to providers behind it.

async with open_model("openai:NAME", environ=os.environ) as model:
    reply = await ask_patiently(model, request, attempts=5, sleep=asyncio.sleep, jitter=random.random)
"""

from __future__ import annotations

from holdfast.llm.base import Bounds, Delta, Ending, Model, ModelReply, RemoteCompaction, RemoteCompactor, Streams
from holdfast.llm.opening import open_model
from holdfast.llm.provider import ProviderModel
from holdfast.llm.remote import issuer_of
from holdfast.llm.retrying import ask_patiently, compact_patiently

__all__ = [
    "Bounds",
    "Delta",
    "Ending",
    "Model",
    "ModelReply",
    "ProviderModel",
    "RemoteCompaction",
    "RemoteCompactor",
    "Streams",
    "ask_patiently",
    "compact_patiently",
    "issuer_of",
    "open_model",
]
