"""How good a model is, by the measures of its field."""
