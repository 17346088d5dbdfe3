"""Invertible maps from a simple latent to the allowed actions."""
