"""Source texts: files, units, trees, and what can be read off them without executing anything."""
