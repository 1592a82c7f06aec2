"""The SQLite adapter: a file that one server process owns. Begin with `store`."""
