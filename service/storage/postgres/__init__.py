"""The PostgreSQL adapter: several processes share one database. Begin with `store`."""
