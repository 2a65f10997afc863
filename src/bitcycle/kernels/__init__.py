"""The operations that touch every element: rounding to a grid and the noise for stochastic rounding."""
