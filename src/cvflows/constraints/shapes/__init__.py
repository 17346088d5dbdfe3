"""Shapes: what is known about the form of a set's rows, and what follows from it in closed form."""
