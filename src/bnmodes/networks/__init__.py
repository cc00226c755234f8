"""Networks of the agents: torsos, heads, encoders."""
