"""What is told to the rules, what counts as proven, and how fixes become edits of the source text."""
