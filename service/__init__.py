"""The REST service."""
