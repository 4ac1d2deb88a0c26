"""The port to models, and what speaks to providers behind it.

async with open_model("openai:NAME", environ=os.environ) as model:
    reply = await ask_patiently(model, request, attempts=5, sleep=asyncio.sleep, jitter=random.random)
"""

from __future__ import annotations

from threadkeep.llm.base import Bounds, Delta, Ending, Model, ModelReply, RemoteCompaction, RemoteCompactor, Streams
from threadkeep.llm.models import open_model
from threadkeep.llm.provider import ProviderModel
from threadkeep.llm.remote import issuer_of
from threadkeep.llm.retry import ask_patiently, compact_patiently

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
