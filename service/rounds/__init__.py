"""Which rounds a value belongs to, and how stored rows are read as a history."""
