"""`bnmodes` with the tests' study in its registry: `python small_cli.py study run small …`."""

from bnmodes import cli
from bnmodes.studies.launch.slurm import SlurmLauncher
from bnmodes.studies.registry import STUDIES
from helpers.small_study import small_study

if __name__ == "__main__":
    STUDIES["small"] = small_study()
    SlurmLauncher.poll_seconds = 0.5
    cli.main()
