"""Text normalisation: turns written text into spoken words with pauses, in nine languages."""
