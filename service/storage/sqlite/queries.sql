-- name: session
select tenant, id, name, algorithm, dim, horizon, seed, options, reward_mode, reward_wait_seconds,
    default_reward, refit, request, created_at, archived_at, n_rounds, n_trajectories, n_complete,
    n_estimates, estimate, model_version, schedule, created_as
from sessions join session_counts using (tenant) where tenant = ? and id = ? and session_id = id

-- name: session_named
select id from sessions where tenant = ? and name = ?

-- name: created_as
select id, request from sessions where tenant = ? and created_as = ? order by id

-- name: sessions
select tenant, id, name, algorithm, dim, horizon, seed, options, reward_mode, reward_wait_seconds,
    default_reward, refit, request, created_at, archived_at, n_rounds, n_trajectories, n_complete,
    n_estimates, estimate, model_version, schedule, created_as
from sessions join session_counts using (tenant)
where tenant = ? and id > ? and session_id = id and (? or archived_at is null)
order by id limit ?

-- name: unfinished
select tenant, id, fit_due, wake_at from sessions
where fit_due is not null or wake_at is not null

-- name: insert_session
-- all but the counters
insert into sessions values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
    ?19, ?20, ?21, ?22, ?23, ?24, ?25)

-- name: update_session
-- all but the counters
update sessions set name = ?1, archived_at = ?2, n_estimates = ?6, estimate = ?7,
    model_version = ?8, schedule = ?9, fit_due = ?10, wake_at = ?11
where tenant = ?12 and id = ?13

-- name: count_session
insert into session_counts values (?,?,?,?,?)
on conflict (tenant, session_id) do update set
    n_rounds = excluded.n_rounds, n_trajectories = excluded.n_trajectories,
    n_complete = excluded.n_complete

-- name: agent_state
select state from agent_states where tenant = ? and session_id = ?

-- name: save_agent_state
insert into agent_states values (?,?,?)
on conflict (tenant, session_id) do update set state = excluded.state

-- name: trajectory
select * from trajectories where tenant = ? and session_id = ? and trajectory = ?

-- name: trajectories
select * from trajectories where tenant = ? and session_id = ? order by trajectory

-- name: save_trajectory
insert into trajectories values (?,?,?,?,?,?,?,?)
on conflict (tenant, session_id, trajectory) do update set
    n_decisions = excluded.n_decisions, n_rounds = excluded.n_rounds,
    n_measurements = excluded.n_measurements, measured_through = excluded.measured_through,
    last_at = excluded.last_at

-- name: decision_by_event
select * from decisions
where tenant = ? and session_id = ? and trajectory = ? and event_id = ?

-- name: decisions_by_events
select d.* from (values (?,?,?,?)) as v cross join decisions d
where d.tenant = v.column1 and d.session_id = v.column2 and d.trajectory = v.column3
    and d.event_id = v.column4

-- name: decision_by_number
-- one decision a round today, so the first candidate is it
select * from decisions
where tenant = ? and session_id = ? and trajectory = ? and round <= ?4 and number = ?4
order by round desc limit 1

-- name: decision_by_round
select * from decisions
where tenant = ? and session_id = ? and trajectory = ? and round = ? order by number limit 1

-- name: decision_before
select * from decisions
where tenant = ? and session_id = ? and trajectory = ? and at <= ? order by round desc, number desc
limit 1

-- name: decisions
select * from decisions
where tenant = ? and session_id = ? and trajectory = ? and round > ? and round <= ?
order by round, number limit ?

-- name: insert_decision
-- "or fail": a row refused fails the transaction anyway, and SQLite keeps no copy of every page that
-- a statement touches in case it is to be undone alone
insert or fail into decisions values (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)

-- name: measurement_over
-- measurements of a single-mode session never overlap: the last to start is the only candidate
select * from (
    select * from measurements
    where tenant = ?1 and session_id = ?2 and trajectory = ?3 and first_round <= ?5
    order by first_round desc limit 1)
where last_round >= ?4

-- name: measurement_by_id
select * from measurements
where tenant = ? and session_id = ? and trajectory = ? and reward_id = ?

-- name: measurements_by_ids
select m.* from (values (?,?,?,?)) as v cross join measurements m
where m.tenant = v.column1 and m.session_id = v.column2 and m.trajectory = v.column3
    and m.reward_id = v.column4

-- name: measurements
select * from measurements
where tenant = ? and session_id = ? and trajectory = ? and first_round between ? and ?
order by first_round, number

-- name: measurement_log
select * from measurements
where tenant = ? and session_id = ? and trajectory = ? order by number

-- name: insert_measurement
insert or fail into measurements values (?,?,?,?,?,?,?,?,?)

-- name: count_measured
-- rounds of positions ?3..?4 that some measurement covers
select count(*) from decisions d
where d.tenant = ?1 and d.session_id = ?2 and d.position between ?3 and ?4 and d.round <= (
    select m.last_round from measurements m
    where m.tenant = ?1 and m.session_id = ?2 and m.trajectory = d.trajectory
        and m.first_round <= d.round
    order by m.first_round desc limit 1)

-- name: count_measured_alone
-- the same where a single trajectory makes positions rounds
select coalesce(sum(min(last_round, ?4) - max(first_round, ?3) + 1), 0) from measurements
where tenant = ?1 and session_id = ?2 and trajectory = ?5
    and first_round <= ?4 and last_round >= ?3

-- name: closed_rounds
select trajectory, max(round) - 1 from decisions
where tenant = ? and session_id = ? and at <= ? group by trajectory

-- name: closed_at
-- unmeasured rounds of a window: how many no decision has followed, and the last that one has
select count(*) - count(n.at), max(n.at) from decisions d
left join decisions n on n.tenant = ?1 and n.session_id = ?2 and n.trajectory = d.trajectory
    and n.round = d.round + 1
where d.tenant = ?1 and d.session_id = ?2 and d.position between ?3 and ?4 and d.round > coalesce((
    select m.last_round from measurements m
    where m.tenant = ?1 and m.session_id = ?2 and m.trajectory = d.trajectory
        and m.first_round <= d.round
    order by m.first_round desc limit 1), 0)

-- name: rounds_in_window
-- of each trajectory, the rounds whose positions lie in a window; in key order, since a fit adds up in
-- the order of its history
select trajectory, min(round), max(round) from decisions
where tenant = ? and session_id = ? and position between ? and ?
    group by trajectory order by trajectory

-- name: selected_contexts
select round, position, context from decisions
where tenant = ? and session_id = ? and trajectory = ? and round between ? and ?
order by round, number

-- name: positions
select min(position) from decisions
where tenant = ? and session_id = ? and trajectory = ? and round between ? and ?
group by round order by round

-- name: measured_values
select first_round, last_round, value from measurements
where tenant = ? and session_id = ? and trajectory = ?
    and first_round >= ? and last_round <= ? and number <= ?
order by first_round, number

-- name: insert_estimate
insert into estimates values (?,?,?,?,?,?,?,?,?,?,?,?,?)

-- name: estimates
select * from estimates where tenant = ? and session_id = ? and number > ? order by number limit ?

-- name: estimate
select * from estimates where tenant = ? and session_id = ? and number = ?

-- name: api_keys
select tenant, id, digest, label, created_at, revoked_at from api_keys
order by tenant, created_at, id

-- name: save_api_key
insert into api_keys values (?,?,?,?,?,?)
on conflict (tenant, id) do update set revoked_at = excluded.revoked_at

-- name: check
select 1 from sessions limit 1
