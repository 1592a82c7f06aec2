-- 0001.sqlite.sql describes the tables and columns; comments here concern PostgreSQL alone. Keys
-- compare byte by byte (collate "C"), so that lock order and listings do not depend on the locale.
-- Rows lie in order of arrival and are found by their keys. A session's counters are in its row,
-- which every batch locks anyway.

create table schema_revision (
    revision text collate "C" not null,
    primary key (revision)
);

create table sessions (
    tenant text collate "C" not null,
    id text collate "C" not null,
    name text collate "C",
    dim bigint not null,
    horizon bigint not null,
    spec text not null,
    request text not null,
    created_at double precision not null,
    archived_at double precision,
    n_rounds bigint not null,
    n_trajectories bigint not null,
    n_measurements bigint not null,
    n_complete bigint not null,
    n_estimates bigint not null,
    estimate bigint not null,
    model_version bigint not null,
    schedule text not null,
    fit_due bigint,
    wake_at double precision,
    fit_due_at double precision,       -- since when: fits are claimed oldest first
    created_as text collate "C",
    append_token text,
    names text,
    changes text,
    trial text,
    keep_contexts boolean not null,
    n_erased_rounds bigint not null,
    n_erased_measurements bigint not null,
    erasing text collate "C",
    clock text collate "C",
    keep_rounds bigint,
    keep_days double precision,
    dropped_to bigint not null,
    swept_to bigint not null,
    n_dropped_rounds bigint not null,
    n_dropped_measurements bigint not null,
    n_dropped_complete bigint not null,
    revision bigint not null,          -- grows with every change: guards what processes remember
    primary key (tenant, id)
) with (fillfactor = 50);              -- written with every batch: leave room for it in the page

create unique index sessions_by_name on sessions (tenant, name) where name is not null;
create index sessions_by_created_as on sessions (tenant, created_as) where created_as is not null;
create index sessions_unfinished on sessions (fit_due_at, tenant, id)
    where fit_due is not null or wake_at is not null;
create index sessions_with_trial on sessions (tenant, id) where trial is not null;
create index sessions_with_retention on sessions (tenant, id)
    where keep_rounds is not null or keep_days is not null or swept_to < dropped_to;

create table agent_states (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    state text not null,
    primary key (tenant, session_id)
);

create table trajectories (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    trajectory text collate "C" not null,
    n_decisions bigint not null,
    n_rounds bigint not null,
    n_measurements bigint not null,
    measured_through bigint not null,
    last_at double precision not null,
    own bytea,
    lately bytea,
    primary key (tenant, session_id, trajectory)
) with (fillfactor = 50);

create table decisions (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    trajectory text collate "C" not null,
    round bigint not null,
    number bigint not null,
    position bigint not null,
    event_id text collate "C",
    digest bytea,
    arm bigint,
    arm_id text,
    context bytea not null,
    scores bytea not null,
    propensity double precision,
    explored boolean not null,
    forced boolean not null,
    epoch bigint not null,
    model_version bigint not null,
    next_fit_round bigint,
    at double precision not null,
    played_by text,
    agent_arm bigint,
    contexts bytea,
    covariates text collate "C",
    own bytea,
    primary key (tenant, session_id, trajectory, round, number)
);

create unique index decisions_by_event
    on decisions (tenant, session_id, trajectory, event_id) where event_id is not null;
create index decisions_by_position on decisions (tenant, session_id, position)
    where trajectory <> '';

create table measurements (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    trajectory text collate "C" not null,
    first_round bigint not null,
    last_round bigint not null,
    number bigint not null,
    position bigint not null,
    value double precision not null,
    reward_id text collate "C",
    at double precision not null,
    replaces bigint,
    covariates text collate "C",
    late bigint,
    primary key (tenant, session_id, trajectory, first_round, number)
);

create unique index measurements_by_reward_id
    on measurements (tenant, session_id, trajectory, reward_id) where reward_id is not null;
create unique index measurements_by_position on measurements (tenant, session_id, position);
create index corrections on measurements (tenant, session_id, position) where replaces is not null;
create index late_values on measurements (tenant, session_id, late) where late is not null;

create table voids (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    trajectory text collate "C" not null,
    round bigint not null,
    position bigint not null,
    at double precision not null,
    primary key (tenant, session_id, trajectory, round, position)
);
create index voids_by_position on voids (tenant, session_id, position);

create table estimates (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    number bigint not null,
    epoch bigint not null,
    due bigint not null,
    status text not null,
    reason text,
    manifest text not null,
    parent bigint not null,
    model_version bigint not null,
    fingerprint text,
    estimate text,
    at double precision not null,
    primary key (tenant, session_id, number)
);

create table kept_sums (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    estimate bigint not null,
    first_round bigint not null,
    last_round bigint not null,
    n_settled bigint not null,
    settled bytea not null,
    seen bytea,
    measured bigint not null,
    anew bigint not null,
    primary key (tenant, session_id)
);

create table slot_sums (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    trajectory text collate "C" not null,
    last_slot bigint not null,
    decided bigint not null,
    sums bytea not null,
    primary key (tenant, session_id, trajectory, last_slot)
);

create index slot_sums_by_slot on slot_sums (tenant, session_id, last_slot);

create table lift_sums (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    since bigint not null,
    decided bigint not null,
    measured bigint not null,
    sums text not null,
    primary key (tenant, session_id)
);

create table lift_units (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    since bigint not null,
    trajectory text collate "C" not null,
    block bigint not null,
    rounds double precision not null,
    reward text not null,
    predicted text not null,
    primary key (tenant, session_id, since, trajectory, block)
);

create table hidden_rows (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    trajectory text collate "C",
    after_round bigint not null,
    writer text,
    sweep_at double precision not null,
    primary key (tenant, session_id)
);

create table api_keys (
    tenant text collate "C" not null,
    id text collate "C" not null,
    digest bytea not null,
    label text not null,
    created_at double precision not null,
    revoked_at double precision,
    role text collate "C" not null,
    expires_at double precision,
    last_used_at double precision,
    primary key (tenant, id)
);

create unique index api_keys_by_digest on api_keys (digest);

create table audit (
    tenant text collate "C" not null,
    id text collate "C" not null,
    at double precision not null,
    actor text,
    request_id text,
    action text not null,
    subject text not null,
    detail text not null,
    primary key (tenant, id)
);

create index audit_by_id on audit (id);

create table limits (
    tenant text collate "C" not null,
    key_id text collate "C" not null,
    requests_per_second double precision,
    max_sessions bigint,
    max_tenant_mb bigint,
    primary key (tenant, key_id)
);

create table webhooks (
    tenant text collate "C" not null,
    id text collate "C" not null,
    url text not null,
    events text not null,
    secret text not null,
    created_at double precision not null,
    last_error text,
    failed_at double precision,
    delivered_at double precision,
    n_given_up bigint not null,
    primary key (tenant, id)
);

create table webhook_messages (
    tenant text collate "C" not null,
    webhook text collate "C" not null,
    id text collate "C" not null,
    body text not null,
    at double precision not null,
    attempts bigint not null,
    next_at double precision not null,
    primary key (tenant, webhook, id)
);

create index webhook_messages_by_time on webhook_messages (next_at);

-- A commit that changes fit_due or wake_at notifies the listeners: workers, when a fit becomes due
-- or a wake-up time is set, and waiting decisions, when a fit is done. A lost notification does no
-- harm, because fit_due itself is stored.
create function lhb_fit_changed() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        perform pg_notify('lhb_fits', json_build_array(old.tenant, old.id, null)::text);
    else
        perform pg_notify('lhb_fits', json_build_array(new.tenant, new.id, new.fit_due)::text);
    end if;
    return null;
end $$;

create trigger fit_changed after update of fit_due, wake_at on sessions for each row
    when (old.fit_due is distinct from new.fit_due or old.wake_at is distinct from new.wake_at)
    execute function lhb_fit_changed();
create trigger fit_added after insert on sessions for each row
    when (new.fit_due is not null or new.wake_at is not null)
    execute function lhb_fit_changed();
create trigger fit_gone after delete on sessions for each row
    when (old.fit_due is not null)
    execute function lhb_fit_changed();
