"""From a run's specification to its finished folder."""
