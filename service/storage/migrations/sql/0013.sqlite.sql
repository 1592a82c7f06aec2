-- What is summed of sessions with a trial. It follows from the rows: a session without it is summed
-- from its beginning.
create table lift_sums (
    tenant text not null,
    session_id text not null,
    since integer not null,            -- only rounds after this position count
    decided integer not null,          -- position of the last round in the sums
    measured integer not null,         -- position of the last reward in the sums
    sums text not null,                -- JSON, see service/lift/sums.py
    primary key (tenant, session_id)
);
create table lift_units (
    tenant text not null,
    session_id text not null,
    since integer not null,
    trajectory text not null,
    block integer not null,            -- of the default trajectory; 0: the whole trajectory
    rounds real not null,
    reward real not null,
    predicted real not null,
    primary key (tenant, session_id, since, trajectory, block)
) without rowid;
create index sessions_with_trial on sessions (tenant, id) where trial is not null;
