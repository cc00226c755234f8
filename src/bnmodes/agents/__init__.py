"""Agents: configuration, act, update, state; nothing else."""
