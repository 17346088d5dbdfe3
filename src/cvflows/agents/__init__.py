"""Learning rules, and the methods made from them."""
