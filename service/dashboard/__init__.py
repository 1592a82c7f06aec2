"""The dashboard: one page of plain ES modules that reads the API. Nothing in it is built.

Begin with `static/app.js`. The page holds no data; with keys, it asks for one and keeps it in the
browser tab's session storage, never in a URL or a cookie.
"""
