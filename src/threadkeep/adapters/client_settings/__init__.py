"""Changes settings files of coding agents: shows the change first, keeps what it does not touch, and takes it back."""
