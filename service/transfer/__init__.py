"""A session as a file: its export as NDJSON, and its import, here or on another server.

Begin with `ndjson`, the format; `import_session` is the command that reads it back.
"""
