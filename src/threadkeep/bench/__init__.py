"""Our figures beside those of others, measured on the machine that asks; ratios count, not seconds."""

from __future__ import annotations
