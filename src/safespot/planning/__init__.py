"""Plans in finite models, known or counted: exact, in NumPy and SciPy.

process    a model, backward and forward induction in it, and the best mixture of plans under limits
counted    models of counts, with imaginary visits
errors     what the counts leave open: standard errors by the delta method
columns    column generation, which knows prices and values alone
simplex    its master program, in exact arithmetic
"""
