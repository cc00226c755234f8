"""The one exception that is a user's to mend; the command line prints it and exits with 2."""


class UsageError(ValueError):
    """Its message is one sentence that says what is wrong and what to do."""
