"""A real model on this machine as reader and as summariser, over every session, hop and variant of the cases.

    THREADKEEP_MODEL_PYTHON=.cache/models/bin/python python -m tests.benchmarks.real_model --lab lab -o real-model.json

About an hour on two idle cores, many on busy ones. It goes on where it was broken off.
"""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import ArgumentParser, Namespace

from tests.models.local_model import INTERPRETER, interpreter, local_model


def arguments() -> Namespace:
    parser = ArgumentParser(description="Ask a real model about compacted sessions.")
    parser.add_argument("--lab", required=True, metavar="FOLDER", help="where threads and progress are kept")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="where the JSON object goes")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="of the model; 1 where anything else runs")
    parser.add_argument("--ask-at", default="5", metavar="HOPS", help="after which hops it is asked")
    return parser.parse_args()


async def main(asked: Namespace) -> int:
    """Serve the model and run the command beside it; return the command's exit code."""
    python = interpreter(os.environ)
    if python is None:
        sys.stderr.write(f"no model: `make test-models` gets one; then set {INTERPRETER}\n")
        return 1
    async with local_model(python, answer_tokens=200, threads=asked.threads) as model:
        command = ["cases", "run-chain", "--reader", model.name, "--summariser", model.name, "--no-noise"]
        options = ["--ask-at", asked.ask_at, "--lab", asked.lab, "-o", asked.output]
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "benchmarks", *command, *options)
        return await process.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(arguments())))
