"""What others use to talk to the service."""
