"""Speed: decisions a second of every agent, where the time goes, and what the machine could do."""
