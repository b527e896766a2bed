"""Long texts that become a file: kept on disk, and made while nobody speaks."""
