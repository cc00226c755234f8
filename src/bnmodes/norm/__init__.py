"""Normalisation layers whose forward mode is an argument, and the same modes for other modules."""
