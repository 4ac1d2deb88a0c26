"""Public datasets of long conversations with questions, from files a user has."""
