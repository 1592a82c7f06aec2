"""Everything between a connection and an endpoint. Begin reading with `middleware`."""
