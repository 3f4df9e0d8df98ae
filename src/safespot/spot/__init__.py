"""The paper, and nothing else: what is counted, optimism, planning, updates, and the step of Algorithm 2."""
