"""Replay memory: the ring of transitions, priorities, sub-trajectories."""
