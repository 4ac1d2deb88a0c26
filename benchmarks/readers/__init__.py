"""What a real model gets out of a compacted window: questions, likelihood, growth and density."""
