"""Networks of the agents, built from one kind of hidden layer: linear → norm → activation."""
