"""`python -m threadkeep.cli` is `threadkeep`."""

from __future__ import annotations

import sys

from threadkeep.cli import main

sys.exit(main())
