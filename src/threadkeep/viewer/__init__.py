"""The web viewer: threads as pages, rendered here, with nothing fetched from anywhere else."""

from __future__ import annotations

from threadkeep.viewer.app import Viewer

__all__ = ["Viewer"]
