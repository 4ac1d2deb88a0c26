"""The web viewer: threads as pages, rendered here, with nothing fetched from anywhere else."""

from __future__ import annotations

from holdfast.viewer.app import Viewer

__all__ = ["Viewer"]
