"""Export a session to an NDJSON file, and import it on this or another server.

Begin with `file_format`, which writes and reads the file, and `import_file`, which imports it.
"""
