"""`learn`: play and observe, compiled, with regret and violation measured along the way."""
