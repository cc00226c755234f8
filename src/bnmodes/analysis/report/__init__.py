"""The report page of a study."""
