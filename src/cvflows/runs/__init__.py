"""From a task to records on disk."""
