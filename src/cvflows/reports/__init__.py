"""Pictures and tables of what exists; nothing here changes it."""
