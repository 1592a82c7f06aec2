-- Statements for PostgreSQL alone: locks, and rows that are passed as one array per column.

-- name: begin
begin

-- name: commit
commit

-- name: rollback
rollback

-- name: take_turn
select pg_advisory_xact_lock(hashtextextended('turn', 0))

-- name: lock_sessions
-- locks in key order, so that two processes never deadlock. What the caller knows as of a revision is
-- read again only if more than counters has changed since. A row that changes while this waits for its
-- lock is looked at afterwards, so the fourth column tells
select s.tenant, s.id, s.revision,
    s.revision <> k.revision and clock_timestamp() - statement_timestamp() > interval '1 ms',
    {counters}, c.*
from unnest($1::text[], $2::text[], $3::bigint[]) k(tenant, id, revision)
join sessions s on s.tenant = k.tenant and s.id = k.id
left join lateral (select {sessions_of_s}) c
    on coalesce((s.revision - k.revision) % {count_step}, 1) <> 0
order by s.tenant, s.id for no key update of s

-- name: insert_session
insert into sessions ({session_columns}, revision) values ({session_values}, 1)

-- name: count_sessions
update sessions s set n_rounds = c.n_rounds, n_trajectories = c.n_trajectories,
    n_measurements = c.n_measurements, n_complete = c.n_complete, revision = s.revision + {count_step}
from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
    c(tenant, id, n_rounds, n_trajectories, n_measurements, n_complete)
where s.tenant = c.tenant and s.id = c.id

-- name: update_session
update sessions set {session_updates}, revision = revision + 1 where tenant = $1 and id = $2

-- name: save_agent_state
insert into agent_states values ($1, $2, $3)
on conflict (tenant, session_id) do update set state = excluded.state

-- name: trajectories_by_keys
-- $4: rounds that the caller knows of. The index is read from there, where there is one, and not from
-- the stored counter: of all that fits, it is read to the end of its page
select {counted_trajectories}
from unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
    k(tenant, session_id, trajectory, n_rounds)
join trajectories t using (tenant, session_id, trajectory)
left join lateral ((select d.number, d.round, d.at {last_known})
    union all (select d.number, d.round, d.at {last}) limit 1) l on true

-- name: save_trajectories
insert into trajectories ({trajectories}) select * from {trajectories_arrays}
on conflict (tenant, session_id, trajectory) do update set {trajectory_updates}

-- name: decisions_by_events
-- in the order of an index, here and below: it is read at one place, whatever the statistics say
select d.* from unnest($1::text[], $2::text[], $3::text[], $4::text[])
    k(tenant, session_id, trajectory, event_id)
cross join lateral (
    select {decisions} from decisions d
    where d.tenant = k.tenant and d.session_id = k.session_id and d.trajectory = k.trajectory
        and d.event_id >= k.event_id
    order by d.event_id limit 1) d
where d.event_id = k.event_id

-- name: decisions_by_numbers
select d.* from unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
    k(tenant, session_id, trajectory, number)
cross join lateral (
    select {decisions} from decisions d
    where d.tenant = k.tenant and d.session_id = k.session_id and d.trajectory = k.trajectory
        and d.round <= k.number and d.number = k.number
    order by round desc limit 1) d

-- name: decisions_by_rounds
select d.* from unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
    k(tenant, session_id, trajectory, round)
cross join lateral (
    select {decisions} from decisions d
    where d.tenant = k.tenant and d.session_id = k.session_id and d.trajectory = k.trajectory
        and d.round = k.round
    order by number limit 1) d

-- name: insert_decisions
insert into decisions ({decisions}) select * from {decisions_arrays}

-- name: measurements_over_rounds
select k.round, m.* from unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
    k(tenant, session_id, trajectory, round)
cross join lateral (
    select {measurements} from measurements m
    where m.tenant = k.tenant and m.session_id = k.session_id and m.trajectory = k.trajectory
        and m.first_round <= k.round
    order by first_round desc, number desc limit 1) m
where m.last_round >= k.round

-- name: measurements_by_ids
select m.* from unnest($1::text[], $2::text[], $3::text[], $4::text[])
    k(tenant, session_id, trajectory, reward_id)
cross join lateral (
    select {measurements} from measurements m
    where m.tenant = k.tenant and m.session_id = k.session_id and m.trajectory = k.trajectory
        and m.reward_id >= k.reward_id
    order by m.reward_id limit 1) m
where m.reward_id = k.reward_id

-- name: insert_measurements
insert into measurements ({measurements}) select * from {measurements_arrays}

-- name: hidden_rows
select {hidden_rows} from hidden_rows where tenant = $1 and session_id = $2
for update skip locked

-- name: due_message
select {webhook_messages} from webhook_messages
where tenant = $1 and webhook = $2 and next_at <= $3 order by next_at limit 1
for update skip locked

-- name: delete_session
with state as (delete from agent_states where tenant = $1 and session_id = $2),
    sums as (delete from kept_sums where tenant = $1 and session_id = $2),
    lift as (delete from lift_sums where tenant = $1 and session_id = $2)
delete from sessions where tenant = $1 and id = $2

-- name: settings
-- the settings that durability depends on, and what they are in this session
select name, current_setting(name)
from (values ('fsync'), ('synchronous_commit'), ('full_page_writes')) needed(name)

-- name: keep_synchronous_commit
-- from now on it is a setting of this session, which no other setting changes
select set_config('synchronous_commit', current_setting('synchronous_commit'), false)

-- name: settings_now
-- the same as they are for a new session, except for one whose URL sets them
select name, coalesce((
    select split_part(given, '=', 2)
    from pg_db_role_setting, unnest(setconfig) as given
    where given like name || '=%'
        and setrole in (0, (select oid from pg_roles where rolname = session_user))
        and setdatabase in (0, (select oid from pg_database where datname = current_database()))
    order by setrole = 0, setdatabase = 0
    limit 1
), reset_val)
from pg_settings
where name in ('fsync', 'full_page_writes', 'synchronous_commit')

-- name: queue
-- the number of due fits, when the oldest became due, the number of workers that can fit
select count(*), min(fit_due_at), (select count(*) from pg_stat_activity
    where datname = current_database() and application_name = 'lhb worker claims')
from sessions where fit_due is not null

-- name: name_connection
select set_config('application_name', $1, false)

-- name: due_fits
-- the oldest of every tenant, so that no tenant hides another's
select tenant, id, fit_due, dim, horizon, spec from (
    select *, row_number() over (partition by tenant order by fit_due_at, id) as place
    from sessions where fit_due is not null) due
order by place, fit_due_at limit 1024

-- name: claim_fit
select pg_try_advisory_lock(hashtextextended($1::text || '/' || $2::text, 0))

-- name: release_fit
select pg_advisory_unlock(hashtextextended($1::text || '/' || $2::text, 0))

-- name: overdue
-- sessions whose wake-up time has come
select tenant, id, wake_at from sessions where wake_at <= $1 and archived_at is null
order by wake_at limit $2

-- name: next_wake
select min(wake_at) from sessions where wake_at > $1

-- name: n_bytes
select pg_database_size(current_database())
