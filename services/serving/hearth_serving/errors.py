"""The one exception of the model servers: one line for a person, and how a program hears of it."""


class ServiceError(Exception):
    """What is wrong with a request or a start, in one line, and what to do instead."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        """Take the line, the HTTP status, the request's field at fault, and OpenAI's code."""
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s


class EngineError(ServiceError):
    """What a model's runtime said: it sees numbers and never a text, so a log may quote it."""
