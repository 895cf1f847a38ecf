"""What is remembered of what has happened, for the witnesses that ask: each of these reports nothing itself."""
