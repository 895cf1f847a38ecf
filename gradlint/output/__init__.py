"""Output: findings as text, as JSON and as annotations of GitHub."""

OUTPUT_FORMATS = ("text", "concise", "json", "github")
