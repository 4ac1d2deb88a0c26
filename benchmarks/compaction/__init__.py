"""What planning, merging and auditing cost, beside one plain pass over the same text."""

from __future__ import annotations
