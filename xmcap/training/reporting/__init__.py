"""What a run says of itself: metrics, rate, arithmetic, traces."""
