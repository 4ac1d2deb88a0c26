"""The web viewer: threads as pages, rendered here, with nothing fetched from anywhere else."""
