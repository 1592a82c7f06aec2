"""The writer: commands that wait are committed together. Begin with `group_commit`."""
