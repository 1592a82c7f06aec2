"""The REST service. Begin reading with `app`, which composes it, then `commands`."""
