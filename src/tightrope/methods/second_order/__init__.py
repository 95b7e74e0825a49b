"""Sequential quadratic programming on all rows, for smooth functions of few coordinates."""
