"""What was found, and how it is told: as data, as tables, as a page, as a picture."""
