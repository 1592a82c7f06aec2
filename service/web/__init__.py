"""What stands between a connection and an endpoint; `middleware` is the place to begin."""
