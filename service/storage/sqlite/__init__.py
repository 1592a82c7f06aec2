"""The SQLite adapter: one file, owned by one server process. Begin with `store`."""
