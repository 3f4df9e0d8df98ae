"""Data from outside: logs of episodes, the empirical model that they give, models in files."""
