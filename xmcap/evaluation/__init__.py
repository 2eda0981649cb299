"""Using and evaluating trained models: predictor, evaluators, baselines."""
