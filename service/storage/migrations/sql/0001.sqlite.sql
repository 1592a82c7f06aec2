-- Every key begins with the tenant. Times are seconds since 1970 and never decrease within a
-- trajectory. Contexts and scores are arrays of little-endian float64.

create table sessions (
    tenant text not null,
    id text not null,                  -- sorts by creation
    name text,
    algorithm text not null,
    dim integer not null,
    horizon integer not null,
    seed integer not null,
    options text not null,             -- JSON
    reward_mode text not null,
    reward_wait_seconds real not null,
    default_reward real,
    refit text not null,
    request text not null,             -- the body that made it, as parsed
    created_at real not null,
    archived_at real,
    n_rounds integer not null,         -- over all trajectories
    n_trajectories integer not null,
    n_complete integer not null,       -- complete rounds of the last open window
    n_estimates integer not null,
    estimate integer not null,         -- number of the installed one, 0 before
    model_version integer not null,
    schedule text not null,            -- JSON: open windows, the due fit with its manifest
    fit_due integer,                   -- due round of the fit at work: the due mark
    wake_at real,                      -- when time alone makes something due
    primary key (tenant, id)
) without rowid;

create unique index sessions_by_name on sessions (tenant, name) where name is not null;
create index sessions_unfinished on sessions (tenant, id)
    where fit_due is not null or wake_at is not null;

-- what an agent has learned; a table of its own, because every batch writes sessions
create table agent_states (
    tenant text not null,
    session_id text not null,
    state text not null,               -- JSON
    primary key (tenant, session_id)
) without rowid;

create table trajectories (
    tenant text not null,
    session_id text not null,
    trajectory text not null,
    n_decisions integer not null,
    n_rounds integer not null,
    n_measurements integer not null,
    measured_through integer not null, -- no measurement reaches beyond this round
    last_at real not null,
    primary key (tenant, session_id, trajectory)
) without rowid;

create table decisions (
    tenant text not null,
    session_id text not null,
    trajectory text not null,
    round integer not null,
    number integer not null,           -- within the trajectory; today one a round
    position integer not null,         -- of the round, in the session as a whole
    event_id text,                     -- the client's; null: the server's, "~<number>"
    digest blob,                       -- of the request, where the client gave an event id
    arm integer,                       -- null: a round without action
    arm_id text,
    context blob not null,             -- selected context; empty without action
    scores blob not null,
    propensity real,
    explored integer not null,
    forced integer not null,
    epoch integer not null,
    model_version integer not null,
    next_fit_round integer,
    at real not null,
    primary key (tenant, session_id, trajectory, round, number)
) without rowid;

create unique index decisions_by_event
    on decisions (tenant, session_id, trajectory, event_id) where event_id is not null;

-- append-only
create table measurements (
    tenant text not null,
    session_id text not null,
    trajectory text not null,
    first_round integer not null,
    last_round integer not null,
    number integer not null,           -- within the trajectory, in order of arrival
    value real not null,
    reward_id text,
    at real not null,
    primary key (tenant, session_id, trajectory, first_round, number)
) without rowid;

create unique index measurements_by_reward_id
    on measurements (tenant, session_id, trajectory, reward_id) where reward_id is not null;

create table estimates (
    tenant text not null,
    session_id text not null,
    number integer not null,
    epoch integer not null,
    due integer not null,
    status text not null,              -- ok, zero, insufficient_data, failed, skipped
    reason text,
    manifest text not null,            -- JSON: window, last measurement and closed round of each
    parent integer not null,           -- estimate installed when this fit began, 0: none
    model_version integer not null,    -- after it
    fingerprint text,                  -- JSON: numpy, scipy, BLAS, CPU
    estimate text,                     -- JSON
    at real not null,
    primary key (tenant, session_id, number)
) without rowid;
