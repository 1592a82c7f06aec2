-- The schema of release 1.0. Every key begins with the tenant. Times are seconds since 1970 and
-- never decrease within a trajectory. Contexts and scores are arrays of little-endian float64. The
-- columns are the fields of the rows in service/session/records.py.

create table schema_revision (
    revision text not null,            -- number of the last script that ran
    primary key (revision)
) without rowid;

create table sessions (
    tenant text not null,
    id text not null,                  -- sorts by creation
    name text,
    dim integer not null,
    horizon integer not null,
    spec text not null,                -- JSON: the settings that no statement reads
    request text not null,             -- the body that made it, as parsed
    created_at real not null,
    archived_at real,
    n_estimates integer not null,
    estimate integer not null,         -- number of the installed one, 0 before
    model_version integer not null,
    schedule text not null,            -- JSON: open windows, the due fit with its manifest
    fit_due integer,                   -- due round of the fit at work: the due mark
    wake_at real,                      -- when time alone makes something due
    created_as text,                   -- the name in the creating body
    append_token text,                 -- of the log that is being appended in slices
    names text,                        -- JSON, see service/session/names.py
    changes text,                      -- JSON, see service/session/records.py
    trial text,                        -- JSON, see service/session/trial.py
    keep_contexts integer not null,    -- whether the contexts of all arms are kept
    n_erased_rounds integer not null,  -- how much of the counts erased trajectories are
    n_erased_measurements integer not null,
    erasing text,                      -- the trajectory whose rows are going
    clock text,                        -- JSON, see service/session/slot_clock.py
    keep_rounds integer,
    keep_days real,
    dropped_to integer not null,       -- rounds up to this position take no rewards
    swept_to integer not null,         -- `dropped_to` of the last pass over all rows
    n_dropped_rounds integer not null,
    n_dropped_measurements integer not null,
    n_dropped_complete integer not null,
    primary key (tenant, id)
) without rowid;

create unique index sessions_by_name on sessions (tenant, name) where name is not null;
create index sessions_by_created_as on sessions (tenant, created_as) where created_as is not null;
create index sessions_unfinished on sessions (tenant, id)
    where fit_due is not null or wake_at is not null;
create index sessions_with_trial on sessions (tenant, id) where trial is not null;
create index sessions_with_retention on sessions (tenant, id)
    where keep_rounds is not null or keep_days is not null or swept_to < dropped_to;

-- Every commit changes the counters of its sessions. A table of their own makes their rows short:
-- they are faster to write, and many share a page.
create table session_counts (
    tenant text not null,
    session_id text not null,
    n_rounds integer not null,         -- over all trajectories
    n_trajectories integer not null,
    n_measurements integer not null,
    n_complete integer not null,       -- complete rounds of the last open window
    primary key (tenant, session_id)
) without rowid;

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
    own blob,                          -- its own theta, see service/rounds/trajectory_theta.py
    lately blob,                       -- what was chosen, see service/session/names.py
    primary key (tenant, session_id, trajectory)
) without rowid;

-- In order of arrival (rowid), with the key as an index: a commit appends to the last pages of the
-- table instead of changing a page of each session.
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
    played_by text,                    -- where there is a trial: who played
    agent_arm integer,                 -- where there is a trial: the arm that the agent chose
    contexts blob,                     -- of all arms, see service/session/kept_contexts.py
    covariates text,                   -- JSON of those given, by name
    own blob,                          -- its trajectory's own theta, where that scored
    primary key (tenant, session_id, trajectory, round, number)
);

create unique index decisions_by_event
    on decisions (tenant, session_id, trajectory, event_id) where event_id is not null;
-- the default trajectory is mostly a session of its own, whose rounds are its positions
create index decisions_by_position on decisions (tenant, session_id, position)
    where trajectory <> '';

-- Append-only. A correction is a measurement of the same rounds that replaces an earlier one, which
-- stays. A fit's manifest names the last position that it may use.
create table measurements (
    tenant text not null,
    session_id text not null,
    trajectory text not null,
    first_round integer not null,
    last_round integer not null,
    number integer not null,           -- within the trajectory, in order of arrival
    position integer not null,         -- within the session, in order of arrival
    value real not null,
    reward_id text,
    at real not null,
    replaces integer,                  -- position of the first value; null: it is that
    covariates text,                   -- JSON of those given, by name
    late integer,                      -- see `MeasurementRow`
    primary key (tenant, session_id, trajectory, first_round, number)
) without rowid;

create unique index measurements_by_reward_id
    on measurements (tenant, session_id, trajectory, reward_id) where reward_id is not null;
create unique index measurements_by_position on measurements (tenant, session_id, position);
create index corrections on measurements (tenant, session_id, position) where replaces is not null;
create index late_values on measurements (tenant, session_id, late) where late is not null;

-- Decisions that were never shown. Their positions are in one order with those of measurements.
create table voids (
    tenant text not null,
    session_id text not null,
    trajectory text not null,
    round integer not null,
    position integer not null,
    at real not null,
    primary key (tenant, session_id, trajectory, round, position)
) without rowid;
create index voids_by_position on voids (tenant, session_id, position);

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

-- The moments of a session's past, from which its next fit goes on. They follow from the rows: a
-- session without them gets them at its next fit. No revision may delete the moments of a session
-- that has dropped rows (dropped_to > 0): no fit can add them up again.
create table kept_sums (
    tenant text not null,
    session_id text not null,
    estimate integer not null,         -- number of the installed estimate; 0: none
    first_round integer not null,      -- rows of earlier rounds of the session do not count
    last_round integer not null,       -- last round of the rows that are settled
    n_settled integer not null,        -- measurements, in order of arrival
    settled blob not null,             -- moments of their rows
    seen blob,                         -- moments of the rows that the installed estimate's fit used
    measured integer not null,         -- up to which measurement they know corrections and voids
    anew integer not null,             -- old values of corrections up to this one were never in them
    primary key (tenant, session_id)
);

-- The summed contexts of old slots of sessions with a clock, which take no decision any more, in
-- stretches that end before too many slots, trajectories or decisions. They follow from the
-- decisions: the next fit of a session without them adds these up.
create table slot_sums (
    tenant text not null,
    session_id text not null,
    trajectory text not null,          -- the default one has a row wherever another has one
    last_slot integer not null,        -- after the row before up to this one
    decided integer not null,          -- decisions of all later slots have positions after this one
    sums blob not null,                -- float64: slots that have decisions, each with its context
    primary key (tenant, session_id, trajectory, last_slot)
);

create index slot_sums_by_slot on slot_sums (tenant, session_id, last_slot);

-- What is summed of sessions with a trial. Where no row is dropped it follows from the rows: a
-- session without it is summed from its beginning.
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
    reward text not null,              -- exact, see service/lift/exact.py
    predicted text not null,
    primary key (tenant, session_id, since, trajectory, block)
) without rowid;

-- Rows that no reader sees, at most one note a session: those of an import or a log that is being
-- written in slices, and those of a deleted session. A sweep deletes the rows in slices, then the
-- note.
create table hidden_rows (
    tenant text not null,
    session_id text not null,
    trajectory text,                   -- null: the rows of all trajectories
    after_round integer not null,      -- only the rounds after this one
    writer text,                       -- token of the write under way; null: nobody writes
    sweep_at real not null,            -- until then they are the writer's; every slice renews it
    primary key (tenant, session_id)
) without rowid;

-- API keys; a key authenticates its tenant. Only digests are stored.
create table api_keys (
    tenant text not null,
    id text not null,                  -- the digest's first 12 hexadecimal digits
    digest blob not null,              -- SHA-256 of the key
    label text not null,
    created_at real not null,
    revoked_at real,
    role text not null,                -- what it allows: "reader", "writer" or "admin"
    expires_at real,
    last_used_at real,                 -- to about a minute
    primary key (tenant, id)
) without rowid;

create unique index api_keys_by_digest on api_keys (digest);

-- who changed keys and sessions
create table audit (
    tenant text not null,              -- whose key or session was changed
    id text not null,                  -- sorts by time, like a session's
    at real not null,
    actor text,                        -- id of the key; null: no key was needed
    request_id text,                   -- null: it was no request
    action text not null,
    subject text not null,             -- id of the key or the session
    detail text not null,              -- JSON object
    primary key (tenant, id)
) without rowid;

create index audit_by_id on audit (id);

-- what a tenant, or one of its keys, may use; null: as the settings say; 0: unlimited
create table limits (
    tenant text not null,
    key_id text not null,              -- "": the tenant
    requests_per_second real,
    max_sessions integer,
    max_tenant_mb integer,
    primary key (tenant, key_id)
) without rowid;

-- where a tenant's administrators want to be told of findings, alarms, failed fits, tripped guards
create table webhooks (
    tenant text not null,
    id text not null,
    url text not null,
    events text not null,              -- JSON list
    secret text not null,              -- signs messages
    created_at real not null,
    last_error text,                   -- why the last attempt failed; null: it did not
    failed_at real,
    delivered_at real,
    n_given_up integer not null,       -- messages that are not tried any more
    primary key (tenant, id)
) without rowid;

-- written in the transaction of what they tell, and gone once they are received or given up
create table webhook_messages (
    tenant text not null,
    webhook text not null,
    id text not null,                  -- the same at every attempt
    body text not null,
    at real not null,
    attempts integer not null,
    next_at real not null,             -- of the next attempt; the sender of one puts it off
    primary key (tenant, webhook, id)
) without rowid;

create index webhook_messages_by_time on webhook_messages (next_at);
