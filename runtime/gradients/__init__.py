"""The gradients of parameters: what becomes of them, told to the protocols over gradients."""
