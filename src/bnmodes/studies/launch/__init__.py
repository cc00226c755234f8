"""How the runs of a study are executed: on this machine, on Slurm, on Ray."""
