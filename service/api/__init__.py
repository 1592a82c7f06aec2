"""The HTTP endpoints, one module per resource. Begin reading with `decisions`."""
