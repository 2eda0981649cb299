"""Systems compared on the same images: differences, their intervals and significance."""
