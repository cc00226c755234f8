"""`python -m bnmodes` is the command line."""

from bnmodes.cli import main

main()
