"""Drafts: what a model is asked, how its answer is read, and the changes to the ledger it proposes."""
