"""The parts that Hearth's servers share: limits, forms, errors, access, pages, metrics, start."""
