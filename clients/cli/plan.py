"""`lhb plan`: how long until a session knows what to choose, before it is made."""

from typing import Annotated, Any

import typer

from clients.cli.output import AsJson, show, table

SHARES = (0.5, 0.8, 0.9, 0.95)


def plan(
    noise: Annotated[
        float, typer.Option(help="Standard deviation of a reward, whatever is chosen.", min=0)
    ],
    effect: Annotated[
        float,
        typer.Option(help="What the best choices earn a round over chance, at once and later."),
    ],
    horizon: Annotated[int, typer.Option(help="Number of lags.", min=1)],
    arms: Annotated[int, typer.Option(help="Arms to choose from in a round.", min=2)],
    dim: Annotated[int, typer.Option(help="Features of an arm.", min=1)],
    rounds: Annotated[
        int | None, typer.Option(help="Rounds that there will be, or have been.", min=1)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say how many rounds it takes at most until choices earn most of what there is.

    Example: lhb plan --noise 2 --effect 0.5 --horizon 7 --arms 4 --dim 5
    """
    from lhb_engine.evaluation.learning_time import LearningTime

    try:
        learning = LearningTime(noise=noise, effect=effect, horizon=horizon, arms=arms, dim=dim)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    until = {share: round(learning.rounds(share)) for share in SHARES}
    answer: dict[str, Any] = {"rounds_until": {str(share): n for share, n in until.items()}}
    heads = ("of the possible gain", "after at most so many rounds")
    lines = [*table(heads, [(f"{share:.0%}", n) for share, n in until.items()])]
    if rounds is not None:
        share, mean = float(learning.share(rounds)), learning.mean_share(rounds)
        earned = mean * effect * rounds
        answer |= {"share": share, "mean_share": mean, "earned": earned}
        lines.append(
            f"After {rounds} rounds choices earn about {share:.0%} of the possible gain; over all "
            f"of them {mean:.0%}, together {earned:.4g} over chance."
        )
    show(answer, as_json, lines)
