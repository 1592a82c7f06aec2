"""Export a session to an NDJSON file, and import it on this or another server.

Begin with `ndjson`, the format and the export; `import_session` is the command that imports.
"""
