"""`python -m benchmarks WHAT`: our figures, beside peers', on your machine."""

from __future__ import annotations

from benchmarks.command.main import main

raise SystemExit(main())
