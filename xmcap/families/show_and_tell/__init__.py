"""Show and Tell: an LSTM writes the caption, and the image's vector is its first input."""
