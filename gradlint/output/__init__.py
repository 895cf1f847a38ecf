"""Output: findings as text, and in the formats that other programs read."""

#: those that people read at a terminal, and those that programs read
TEXT_FORMATS = ("text", "concise")
MACHINE_FORMATS = ("json", "github", "gitlab", "junit", "sarif")
OUTPUT_FORMATS = (*TEXT_FORMATS, *MACHINE_FORMATS)
