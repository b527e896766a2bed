"""How fast language models answer, what they take, and whether that is what physics allows."""
