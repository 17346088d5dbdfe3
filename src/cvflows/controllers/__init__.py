"""Trained policies that leave Python and JAX, with the check that keeps their actions allowed."""
