"""Sets of allowed actions C(x) ⊆ [-1,1]^d, and the nearest action inside them."""
