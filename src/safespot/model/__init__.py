"""The truth: a constrained MDP, its noise, simulation, and the exact oracle. Learners never import it."""
