"""A trained model at work: predictor, evaluators, baselines."""
