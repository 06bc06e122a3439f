"""The one error type that a person is meant to read."""


class UserError(Exception):
    """Bad input: the message names the file or parameter and says how to mend it.

    The command line prints the message alone (no traceback) and exits with status 2. Anything else that is raised is a
    defect of this project and keeps its traceback.
    """
