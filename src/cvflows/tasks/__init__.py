"""Named benchmark tasks: an environment, a constraint and the observation entries it reads."""
