"""SQL that both adapters share: columns, statements, the history of a fit. Begin with `columns`."""
