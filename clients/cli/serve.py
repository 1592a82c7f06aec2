"""`lhb serve`: the REST service."""

from typing import Annotated

import typer


def serve(
    host: Annotated[str, typer.Option(help="Address to bind.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one.")] = 8080,
) -> None:
    """Serve the REST API. Where the data is kept: LHB_DATABASE_URL (sqlite:///lhb.db).

    Example: lhb serve --port 8081
    """
    from service.base.settings import read_settings
    from service.operation.server import run

    run(host, port, read_settings())
