"""MinAtar games as a vector of environments."""
