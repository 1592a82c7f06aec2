"""`lhb worker`: fits for servers that share a PostgreSQL database."""


def worker() -> None:
    """Fit what is due in the PostgreSQL database of LHB_DATABASE_URL; any number may run.

    Example: LHB_DATABASE_URL=postgresql://lhb@db/lhb lhb worker
    """
    from service.base.settings import read_settings
    from service.operation.worker import run

    run(read_settings())
