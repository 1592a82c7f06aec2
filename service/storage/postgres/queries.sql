-- Statements for PostgreSQL alone: locks, and rows that are passed as one array per column.

-- name: begin
begin

-- name: commit
commit

-- name: lock_sessions
-- locks in key order, so that two processes never deadlock
select {sessions}, revision from unnest($1::text[], $2::text[]) k(tenant, id)
join sessions s using (tenant, id) order by tenant, id for no key update of s

-- name: insert_session
insert into sessions ({session_columns}, revision) values ({session_values}, 1)

-- name: count_sessions
update sessions s set n_rounds = c.n_rounds, n_trajectories = c.n_trajectories,
    n_complete = c.n_complete, revision = s.revision + 1
from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[])
    c(tenant, id, n_rounds, n_trajectories, n_complete)
where s.tenant = c.tenant and s.id = c.id

-- name: update_session
update sessions set {session_updates}, revision = revision + 1 where tenant = $1 and id = $2

-- name: save_agent_state
insert into agent_states values ($1, $2, $3)
on conflict (tenant, session_id) do update set state = excluded.state

-- name: lock_trajectories
select {trajectories} from unnest($1::text[], $2::text[], $3::text[])
    k(tenant, session_id, trajectory)
join trajectories t using (tenant, session_id, trajectory)
order by tenant, session_id, trajectory for no key update of t

-- name: save_trajectories
insert into trajectories ({trajectories}) select * from {trajectories_arrays}
on conflict (tenant, session_id, trajectory) do update set {trajectory_updates}

-- name: decisions_by_events
select {decisions} from unnest($1::text[], $2::text[], $3::text[], $4::text[])
    k(tenant, session_id, trajectory, event_id)
join decisions d using (tenant, session_id, trajectory, event_id)

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
    order by first_round desc limit 1) m
where m.last_round >= k.round

-- name: measurements_by_ids
select {measurements} from unnest($1::text[], $2::text[], $3::text[], $4::text[])
    k(tenant, session_id, trajectory, reward_id)
join measurements m using (tenant, session_id, trajectory, reward_id)

-- name: insert_measurements
insert into measurements ({measurements}) select * from {measurements_arrays}

-- name: delete_session
with one as (delete from measurements where tenant = $1 and session_id = $2),
    two as (delete from decisions where tenant = $1 and session_id = $2),
    three as (delete from estimates where tenant = $1 and session_id = $2),
    four as (delete from agent_states where tenant = $1 and session_id = $2),
    five as (delete from trajectories where tenant = $1 and session_id = $2)
delete from sessions where tenant = $1 and id = $2

-- name: settings
-- the settings that durability depends on
select current_setting('fsync'), current_setting('synchronous_commit'),
    current_setting('full_page_writes')

-- name: queue
-- the number of due fits, when the oldest became due, the number of connected workers
select count(*), min(fit_due_at), (select count(*) from pg_stat_activity
    where datname = current_database() and application_name = 'lhb worker claims')
from sessions where fit_due is not null

-- name: claim_fits
-- takes advisory locks row by row, in this order, until $3 are taken (the CTE keeps any plan from
-- locking more); sessions that this connection already holds are left out
with due as materialized (
    select tenant, id, fit_due from sessions where fit_due is not null
    order by fit_due_at, tenant, id limit 1024)
select tenant, id, fit_due from due
where not exists (
        select from unnest($1::text[], $2::text[]) held(tenant, id)
        where held.tenant = due.tenant and held.id = due.id)
    and pg_try_advisory_lock(hashtextextended(tenant || '/' || id, 0))
limit $3

-- name: release_fit
select pg_advisory_unlock(hashtextextended($1::text || '/' || $2::text, 0))

-- name: overdue
-- sessions whose wake-up time has come
select tenant, id, wake_at from sessions where wake_at <= $1 and archived_at is null
order by wake_at limit $2

-- name: next_wake
select min(wake_at) from sessions where wake_at > $1
