"""An adapter whose host is not installed says what to install."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# Imports an adapter where no package of a host can be found, and prints what it says.
ATTEMPT = """
import importlib, json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"agents", "claude_agent_sdk", "langchain", "langchain_core", "pydantic_ai", "litellm"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
said = {}
for adapter in sys.argv[1:]:
    try:
        importlib.import_module(f"threadkeep.adapters.{adapter}")
    except ImportError as error:
        said[adapter] = str(error)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    adapters = ("openai_agents", "claude_agent_sdk", "langchain", "pydantic_ai", "litellm")
    ran = subprocess.run([sys.executable, "-c", ATTEMPT, *adapters], capture_output=True, text=True, check=True)
    told: dict[str, str] = json.loads(ran.stdout)
    return told


@pytest.mark.parametrize(
    ("adapter", "host", "module", "install"),
    [
        ("openai_agents", "the OpenAI Agents SDK", "agents", "'threadkeep[openai-agents]'"),
        ("claude_agent_sdk", "the Claude Agent SDK", "claude_agent_sdk", "'threadkeep[claude-agent-sdk]'"),
        ("langchain", "LangChain", "langchain", "'threadkeep[langchain]'"),
        ("pydantic_ai", "Pydantic AI", "pydantic_ai", "'threadkeep[pydantic-ai]'"),
        ("litellm", "LiteLLM", "litellm", "'litellm[proxy]'"),
    ],
)
def test_an_adapter_names_the_extra_it_needs(said: dict[str, str], adapter: str, host: str, module: str, install: str) -> None:
    """An import error still, with what to do about it."""
    reason = f"No module named '{module}'"
    assert said[adapter] == f"the adapter for {host} needs a package that is not installed ({reason}); pip install {install}"
