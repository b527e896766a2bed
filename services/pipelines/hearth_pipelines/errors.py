"""The errors of this package, each one line for a person."""


class SetupError(Exception):
    """The server cannot start, or a pipeline is left out; the text says what to change."""


class PipelineError(Exception):
    """A pipeline has no answer; the user sees the text, so it must not contain a secret."""
