"""Output: findings as text, as JSON and as annotations of GitHub."""
