"""Verdicts on a policy's safety, from a learner's data or from fresh episodes, and the policy to deploy."""
