"""`lhb worker`: fits for servers that share a PostgreSQL database."""


def worker() -> None:
    """Fit what is due in the PostgreSQL database of LHB_DATABASE_URL; any number may run."""
    from service.fits.worker import run
    from service.settings import Settings, name_unknown_variables

    name_unknown_variables()
    run(Settings())
