"""With this folder in PYTHONPATH, a process and its children keep sums from 64 rounds on.

Retention looks often, and drops a few rows at a time.
"""

import sys
from importlib import import_module

LIMITS = (  # in this order: modules take the first from there as they are imported
    ("lhb_engine.history", "LATEST", 64),
    ("lhb_engine.design.moment_sums", "GRAIN", 16),
    ("service.session.slot_clock", "STRETCH", 8),
    ("service.commands.drop_rounds", "LEAST_SECONDS", 0.0),
    ("service.operation.sweeper", "LOOK_SECONDS", 0.1),
    ("service.fits.cost", "LEAST_SECONDS", 3600.0),  # a fit on a busy machine is not at its end
)
if not any("resource_tracker" in given for given in sys.orig_argv):  # that one does nothing of ours
    for module, name, value in LIMITS:
        setattr(import_module(module), name, value)
    slices = import_module("service.storage.transactions").Slices(rows=4, page=4)
    import_module("service.storage.sqlite.store").SqliteStore.slices = slices
    import_module("service.storage.postgres.store").PostgresStore.slices = slices
