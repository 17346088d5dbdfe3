"""The sets known by name, a file per family. To add one, write its class and register it in `registry.py`."""
