"""What a run comes to before it is paid for: parameters, and the step compiled for a TPU slice that is not there."""
