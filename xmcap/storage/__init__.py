"""Where bytes lie: local paths and buckets, files that appear whole, outputs that are held."""
