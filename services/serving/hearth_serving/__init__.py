"""What Hearth's model servers share: one door, one line, one page, one way to start and end."""
