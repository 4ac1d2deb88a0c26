"""Other people's long conversations with questions, from files a user has: none is shipped, none was tuned on."""
