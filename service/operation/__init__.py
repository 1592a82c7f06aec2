"""The running process: the app, its server, spans, metrics that are scraped, the sweeper."""
