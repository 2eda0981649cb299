"""Plans a run before it is paid for: counts parameters, and compiles the step for absent TPUs or GPUs."""
