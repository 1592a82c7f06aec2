"""One router a resource: parse, one call, answer. Begin with `decisions`."""
