"""The commands of the command line: arguments to calls, nothing else."""
