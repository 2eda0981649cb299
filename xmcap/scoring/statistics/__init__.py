"""Sufficient statistics of images, and what is computed of them: intervals, paired tests, slices, subsets."""
