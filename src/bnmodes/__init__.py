"""BatchNorm forward modes of value-learning agents."""
