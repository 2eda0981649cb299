"""Raw releases -> image records -> batches."""
