"""The database: a port and its adapters. Begin with `ports`, then read one adapter's `store`."""
