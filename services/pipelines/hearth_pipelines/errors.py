"""What goes wrong, in one line for a person."""


class PipelinesError(Exception):
    """The server cannot start, or a pipeline is left out; the text says what to change."""


class PipelineError(Exception):
    """A pipeline has no answer; the text is shown to whoever asked, so it holds no secret."""
