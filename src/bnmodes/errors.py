"""The exceptions that are a user's to mend; the command line prints them and exits with 2."""


class UsageError(ValueError):
    """Its message is one sentence that says what is wrong and what to do."""


class DamagedError(UsageError):
    """A run's file is not what was written; a study sets the run aside and makes it again."""
