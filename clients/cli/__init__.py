"""The command line `lhb`. `main.py` puts its subcommands together; begin there."""
