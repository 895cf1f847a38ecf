"""The ranks of a distributed training, each with a guard of its own."""
