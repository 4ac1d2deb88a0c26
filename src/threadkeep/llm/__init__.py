"""The port to models, and the clients for providers behind it.

async with open_model("openai:NAME", environ=os.environ) as model:
    reply = await RetryPolicy().run(partial(model.ask, request))
"""

from __future__ import annotations

from threadkeep.dialects import Delta
from threadkeep.llm.base import (
    BoundableModel,
    Ending,
    Model,
    ModelReply,
    RemoteCompaction,
    RemoteCompactor,
    StreamingModel,
)
from threadkeep.llm.models import open_model
from threadkeep.llm.provider import ProviderModel
from threadkeep.llm.remote import name_issuer
from threadkeep.llm.retry import RetryPolicy

__all__ = [
    "BoundableModel",
    "Delta",
    "Ending",
    "Model",
    "ModelReply",
    "ProviderModel",
    "RemoteCompaction",
    "RemoteCompactor",
    "RetryPolicy",
    "StreamingModel",
    "name_issuer",
    "open_model",
]
