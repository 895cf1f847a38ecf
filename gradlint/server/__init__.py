"""The language server: what gradlint has to say of files that are open in an editor, while they are written."""
