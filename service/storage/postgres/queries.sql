-- name: begin
begin

-- name: commit
commit

-- name: session
select tenant, id, name, algorithm, dim, horizon, seed, options, reward_mode, reward_wait_seconds,
    default_reward, refit, request, created_at, archived_at, n_rounds, n_trajectories, n_complete,
    n_estimates, estimate, model_version, schedule, created_as
from sessions where tenant = $1 and id = $2

-- name: lock_sessions
-- locks in key order, so that two processes never wait for each other in a circle
select s.tenant, s.id, s.name, algorithm, dim, horizon, seed, options, reward_mode,
    reward_wait_seconds, default_reward, refit, request, created_at, archived_at, n_rounds,
    n_trajectories, n_complete, n_estimates, estimate, model_version, schedule, created_as,
    revision
from unnest($1::text[], $2::text[]) k(tenant, id)
join sessions s on s.tenant = k.tenant and s.id = k.id
order by s.tenant, s.id for no key update of s

-- name: lock_session_now
-- a row that the batch did not announce: out of order, so never wait for it
select tenant, id, name, algorithm, dim, horizon, seed, options, reward_mode, reward_wait_seconds,
    default_reward, refit, request, created_at, archived_at, n_rounds, n_trajectories, n_complete,
    n_estimates, estimate, model_version, schedule, created_as, revision
from sessions where tenant = $1 and id = $2 for no key update nowait

-- name: session_named
select id from sessions where tenant = $1 and name = $2

-- name: created_as
select id, request from sessions where tenant = $1 and created_as = $2 order by id

-- name: sessions
select tenant, id, name, algorithm, dim, horizon, seed, options, reward_mode, reward_wait_seconds,
    default_reward, refit, request, created_at, archived_at, n_rounds, n_trajectories, n_complete,
    n_estimates, estimate, model_version, schedule, created_as
from sessions where tenant = $1 and id > $2 and ($3 or archived_at is null) order by id limit $4

-- name: unfinished
select tenant, id, fit_due, wake_at from sessions
where fit_due is not null or wake_at is not null

-- name: insert_session
insert into sessions values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,
    $20,$21,$22,$23,$24,$26,1,$25)

-- name: count_sessions
update sessions s set n_rounds = c.n_rounds, n_trajectories = c.n_trajectories,
    n_complete = c.n_complete, revision = s.revision + 1
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[])
    c(n_rounds, n_trajectories, n_complete, tenant, id)
where s.tenant = c.tenant and s.id = c.id

-- name: update_session
update sessions set name = $1, archived_at = $2, n_rounds = $3, n_trajectories = $4,
    n_complete = $5, n_estimates = $6, estimate = $7, model_version = $8, schedule = $9,
    fit_due = $10, wake_at = $11, fit_due_at = $14, revision = revision + 1
where tenant = $12 and id = $13

-- name: agent_state
select state from agent_states where tenant = $1 and session_id = $2

-- name: save_agent_state
insert into agent_states values ($1,$2,$3)
on conflict (tenant, session_id) do update set state = excluded.state

-- name: trajectory
select * from trajectories where tenant = $1 and session_id = $2 and trajectory = $3

-- name: trajectories
select * from trajectories where tenant = $1 and session_id = $2 order by trajectory

-- name: lock_trajectories
select t.* from unnest($1::text[], $2::text[], $3::text[]) k(tenant, session_id, trajectory)
join trajectories t using (tenant, session_id, trajectory)
order by tenant, session_id, trajectory for no key update of t

-- name: save_trajectories
insert into trajectories
select * from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
    $7::bigint[], $8::float8[])
on conflict (tenant, session_id, trajectory) do update set
    n_decisions = excluded.n_decisions, n_rounds = excluded.n_rounds,
    n_measurements = excluded.n_measurements, measured_through = excluded.measured_through,
    last_at = excluded.last_at

-- name: decision_by_event
select * from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and event_id = $4

-- name: decisions_by_events
select d.* from unnest($1::text[], $2::text[], $3::text[], $4::text[])
    k(tenant, session_id, trajectory, event_id)
join decisions d using (tenant, session_id, trajectory, event_id)

-- name: decision_by_number
-- one decision a round today, so the first candidate is it
select * from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and round <= $4 and number = $4
order by round desc limit 1

-- name: decisions_by_numbers
select d.* from unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
    k(tenant, session_id, trajectory, number)
cross join lateral (
    select * from decisions d
    where d.tenant = k.tenant and d.session_id = k.session_id and d.trajectory = k.trajectory
        and d.round <= k.number and d.number = k.number
    order by round desc limit 1) d

-- name: decision_by_round
select * from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and round = $4 order by number limit 1

-- name: decisions_by_rounds
select d.* from unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
    k(tenant, session_id, trajectory, round)
cross join lateral (
    select * from decisions d
    where d.tenant = k.tenant and d.session_id = k.session_id and d.trajectory = k.trajectory
        and d.round = k.round
    order by number limit 1) d

-- name: decision_before
select * from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and at <= $4
order by round desc, number desc limit 1

-- name: decisions
select * from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and round > $4 and round <= $5
order by round, number limit $6

-- name: insert_decisions
insert into decisions
select * from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
    $7::text[], $8::bytea[], $9::bigint[], $10::text[], $11::bytea[], $12::bytea[], $13::float8[],
    $14::bool[], $15::bool[], $16::bigint[], $17::bigint[], $18::bigint[], $19::float8[])

-- name: measurement_over
-- measurements of a single-mode session never overlap: the last to start is the only candidate
select * from (
    select * from measurements
    where tenant = $1 and session_id = $2 and trajectory = $3 and first_round <= $5
    order by first_round desc limit 1) m
where last_round >= $4

-- name: measurements_over_rounds
select k.round, m.* from unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
    k(tenant, session_id, trajectory, round)
cross join lateral (
    select * from measurements m
    where m.tenant = k.tenant and m.session_id = k.session_id and m.trajectory = k.trajectory
        and m.first_round <= k.round
    order by first_round desc limit 1) m
where m.last_round >= k.round

-- name: measurement_by_id
select * from measurements
where tenant = $1 and session_id = $2 and trajectory = $3 and reward_id = $4

-- name: measurements_by_ids
select m.* from unnest($1::text[], $2::text[], $3::text[], $4::text[])
    k(tenant, session_id, trajectory, reward_id)
join measurements m using (tenant, session_id, trajectory, reward_id)

-- name: measurements
select * from measurements
where tenant = $1 and session_id = $2 and trajectory = $3 and first_round between $4 and $5
order by first_round, number

-- name: measurement_log
select * from measurements
where tenant = $1 and session_id = $2 and trajectory = $3 order by number

-- name: insert_measurements
insert into measurements
select * from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[],
    $7::float8[], $8::text[], $9::float8[])

-- name: count_measured
-- rounds of positions $3..$4 that some measurement covers
select count(*) from decisions d
where d.tenant = $1 and d.session_id = $2 and d.position between $3 and $4 and d.round <= (
    select m.last_round from measurements m
    where m.tenant = $1 and m.session_id = $2 and m.trajectory = d.trajectory
        and m.first_round <= d.round
    order by m.first_round desc limit 1)

-- name: count_measured_alone
-- the same where a single trajectory makes positions rounds
select coalesce(sum(least(last_round, $4) - greatest(first_round, $3) + 1), 0)::bigint
from measurements
where tenant = $1 and session_id = $2 and trajectory = $5
    and first_round <= $4 and last_round >= $3

-- name: closed_rounds
select trajectory, max(round) - 1 from decisions
where tenant = $1 and session_id = $2 and at <= $3 group by trajectory

-- name: closed_at
-- unmeasured rounds of a window: how many no decision has followed, and the last that one has
select count(*) - count(n.at), max(n.at) from decisions d
left join decisions n on n.tenant = $1 and n.session_id = $2 and n.trajectory = d.trajectory
    and n.round = d.round + 1
where d.tenant = $1 and d.session_id = $2 and d.position between $3 and $4
    and d.round > coalesce((
        select m.last_round from measurements m
        where m.tenant = $1 and m.session_id = $2 and m.trajectory = d.trajectory
            and m.first_round <= d.round
        order by m.first_round desc limit 1), 0)

-- name: rounds_in_window
-- of each trajectory, the rounds whose positions lie in a window; in key order, since a fit adds up in
-- the order of its history
select trajectory, min(round), max(round) from decisions
where tenant = $1 and session_id = $2 and position between $3 and $4
    group by trajectory order by trajectory

-- name: selected_contexts
select round, position, context from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and round between $4 and $5
order by round, number

-- name: positions
select min(position) from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and round between $4 and $5
group by round order by round

-- name: measured_values
select first_round, last_round, value from measurements
where tenant = $1 and session_id = $2 and trajectory = $3
    and first_round >= $4 and last_round <= $5 and number <= $6
order by first_round, number

-- name: insert_estimate
insert into estimates values ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13)

-- name: estimates
select * from estimates where tenant = $1 and session_id = $2 and number > $3
order by number limit $4

-- name: estimate
select * from estimates where tenant = $1 and session_id = $2 and number = $3

-- name: delete_session
with one as (delete from measurements where tenant = $1 and session_id = $2),
    two as (delete from decisions where tenant = $1 and session_id = $2),
    three as (delete from estimates where tenant = $1 and session_id = $2),
    four as (delete from agent_states where tenant = $1 and session_id = $2),
    five as (delete from trajectories where tenant = $1 and session_id = $2)
delete from sessions where tenant = $1 and id = $2

-- name: api_keys
select tenant, id, digest, label, created_at, revoked_at from api_keys
order by tenant, created_at, id

-- name: save_api_key
insert into api_keys values ($1,$2,$3,$4,$5,$6)
on conflict (tenant, id) do update set revoked_at = excluded.revoked_at

-- name: check
select 1 from sessions limit 1

-- name: settings
-- what durability rests on
select current_setting('fsync'), current_setting('synchronous_commit'),
    current_setting('full_page_writes')

-- name: queue
-- fits that are due, since when the oldest is, workers that are connected
select count(*), min(fit_due_at), (select count(*) from pg_stat_activity
    where datname = current_database() and application_name = 'lhb worker claims')
from sessions where fit_due is not null

-- name: claim_fits
-- the lock is taken row by row, in this order, and only until there are $3 (a CTE, so that no
-- other plan can lock more); sessions that this connection holds already are left out
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
-- time alone has something to do here
select tenant, id, wake_at from sessions where wake_at <= $1 and archived_at is null
order by wake_at limit $2

-- name: next_wake
select min(wake_at) from sessions where wake_at > $1
