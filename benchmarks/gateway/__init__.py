"""What the gateway adds to a request, beside a bare pass-through and beside other proxies, in one run."""
