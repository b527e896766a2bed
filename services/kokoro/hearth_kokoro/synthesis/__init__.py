"""Speech synthesis: cutting a text into segments, scheduling inferences, joining sound."""
