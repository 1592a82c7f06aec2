"""What a tenant may make of everything, by the operator's settings."""

from dataclasses import dataclass, fields

from service.base.problems import Problem, ProblemCode
from service.base.server_settings import Settings
from service.session.records import SessionRow, TrajectoryKey
from service.writer.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest sizes and counts; 0: only what the service itself can do limits them."""

    arms: int = 0
    dim: int = 0
    horizon: int = 0
    sessions: int = 0  # of a tenant
    trajectories: int = 0  # of a session

    @classmethod
    def of(cls, settings: Settings) -> "Limits":
        """Return the limits that the settings name."""
        return cls(*(getattr(settings, f"max_{one.name}") for one in fields(cls)))

    def refuse_arms(self, n_arms: int) -> None:
        """Raise a 422 if a decision has too many arms."""
        _refuse_more("contexts", n_arms, self.arms, "arms")

    def refuse_session(self, uow: UnitOfWork, session: SessionRow) -> None:
        """Refuse a new session, or one that is imported.

        Raises 422 out_of_range: it is too large; 409 limit_reached: the tenant has as many as it
        may.
        """
        _refuse_more("dim", session.dim, self.dim, "numbers in a context")
        _refuse_more("horizon", session.horizon, self.horizon, "lags")
        if 0 < self.trajectories < session.n_trajectories:
            n = session.n_trajectories
            detail = f"there may be {self.trajectories} trajectories in a session, not {n}"
            raise Problem(ProblemCode.LIMIT_REACHED, detail, "trajectory")
        own = uow.stored.limit_of(session.tenant)
        most = self.sessions if own is None or own.max_sessions is None else own.max_sessions
        if most:
            n = uow.stored.count_sessions(session.tenant, most)
            _refuse_one_more(n, most, "sessions, archived ones too")

    def refuse_trajectory(self, uow: UnitOfWork, session: SessionRow, key: TrajectoryKey) -> None:
        """Raise a 409 if a trajectory would be new, and the session has as many as it may."""
        if 0 < self.trajectories <= session.n_trajectories and not uow.trajectory(key).n_decisions:
            n = session.n_trajectories
            _refuse_one_more(n, self.trajectories, "trajectories in this session", "trajectory")


NO_LIMITS = Limits()


def _refuse_more(field: str, n: int, most: int, what: str) -> None:
    if 0 < most < n:
        detail = f"{field}: this server takes at most {most} {what}, not {n}"
        raise Problem(ProblemCode.OUT_OF_RANGE, detail, field)


def _refuse_one_more(n: int, most: int, what: str, field: str | None = None) -> None:
    if n >= most:
        detail = f"there are {most} {what}, which is the limit"
        raise Problem(ProblemCode.LIMIT_REACHED, detail, field)
