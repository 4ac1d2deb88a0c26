"""`python -m benchmarks.readers`: make windows and cuts, score them with a model, print the tables."""

from __future__ import annotations

from benchmarks.readers.command import main

raise SystemExit(main())
