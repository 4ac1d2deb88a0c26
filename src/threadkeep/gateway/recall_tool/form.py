"""The tool as models are offered it."""

from __future__ import annotations

from typing import Final

from threadkeep.dialects.base import ToolDefinition
from threadkeep.recall.tool import DESCRIPTION, PARAMETERS

NAME: Final = "threadkeep_recall"
TOOL: Final = ToolDefinition(name=NAME, description=DESCRIPTION, parameters=PARAMETERS)
