"""What SQLite and PostgreSQL share: columns, statements, a fit's history. Begin with `columns`."""
