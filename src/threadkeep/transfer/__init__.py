"""Transcripts of other programs in, threads out."""
