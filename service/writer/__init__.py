"""The writer: it commits waiting commands in groups. Begin with `group_commit`."""
