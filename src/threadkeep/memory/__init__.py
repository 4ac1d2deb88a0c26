"""Memory: what outlives a thread. Rules, decisions and facts from idle threads, merged, ranked by use, editable as a page."""
