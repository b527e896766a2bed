"""What was measured, as data, for a person, and as a picture."""
