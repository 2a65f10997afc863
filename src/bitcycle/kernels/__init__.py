"""What touches every element: rounding to a grid, and the noise of stochastic rounding."""
