"""The PostgreSQL adapter: any number of processes on one database. Begin with `store`."""
