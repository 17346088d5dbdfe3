"""Environments of the benchmark that Gymnasium does not have, and the wrappers that keep actions allowed."""
