"""What is executed, in which order, and how far."""
