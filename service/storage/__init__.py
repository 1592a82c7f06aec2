"""Where the truth is kept: the port and its adapters."""
