"""Parts of an update: targets, optimizer, weight projection, reward scale, relaxed actions."""
