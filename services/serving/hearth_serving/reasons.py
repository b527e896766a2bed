"""Why a library failed, for one line that a person reads."""

_LONGEST = 200


def first_line(error: BaseException) -> str:
    """Return the first line that an error says, bounded; its kind if it says nothing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    line = lines[0] if lines else type(error).__name__
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "..."
