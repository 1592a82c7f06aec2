"""The command line `lhb`, one file a subcommand. `main.py` puts them together; begin there."""
