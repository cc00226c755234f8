"""Studies: arms × games × seeds, declared, launched, gathered."""
