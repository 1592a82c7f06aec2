-- Statements for every SQL database. A name in braces stands for the columns of a table, or for
-- text that the adapter supplies.

-- name: session
select {sessions} from {all_of_sessions} where tenant = $1 and id = $2

-- name: session_named
select id from sessions where tenant = $1 and name = $2

-- name: created_as
select id, request from sessions where tenant = $1 and created_as = $2 order by id

-- name: sessions
select {sessions} from {all_of_sessions}
where tenant = $1 and id > $2 and ($3 or archived_at is null) order by id limit $4

-- name: unfinished
select tenant, id, fit_due, wake_at from sessions
where fit_due is not null or wake_at is not null

-- name: n_sessions
select count(*) from (select 1 from sessions where tenant = $1 limit $2) s

-- name: stored_by_tenant
-- about: a decision has its context and some 250 bytes, with indices; a measurement 150. Where the
-- contexts of all arms are kept, ten arms are assumed. A comparison has 150 bytes a unit, of which
-- there are as many as trajectories and blocks of the default one at most
select tenant, sum(n_bytes) from (
    select tenant, (n_rounds - n_erased_rounds - n_dropped_rounds)
            * (8.0 * dim * case when keep_contexts then 11 else 1 end + 250)
        + (n_measurements - n_erased_measurements - n_dropped_measurements) * 150.0
        + case when trial is null then 0 else n_trajectories + n_rounds / (2 * horizon) end * 150.0
        as n_bytes
    from {all_of_sessions}
    union all
    select tenant, length(settled) + coalesce(length(seen), 0) from kept_sums
    union all
    select tenant, length(sums) from slot_sums) s
group by tenant

-- name: due_by_tenant
-- the first condition is that of the index
-- where there is a clock, a fit is due after a slot, not after so many rounds
select tenant, count(*), max(case when clock is null then n_rounds - fit_due else 0 end), min({fit_due_at}) from {all_of_sessions}
where (fit_due is not null or wake_at is not null) and fit_due is not null group by tenant

-- name: with_retention
-- the condition is that of the index
select {sessions} from {all_of_sessions} where (tenant, id) > ($1, $2)
    and (keep_rounds is not null or keep_days is not null or swept_to < dropped_to)
order by tenant, id limit $3

-- name: agent_state
select state from agent_states where tenant = $1 and session_id = $2

-- name: trajectory
-- its row, with what its last decision tells (`COUNTED` in statements.py), here and below
select {counted_trajectories} from trajectories t {last_decision}
where t.tenant = $1 and t.session_id = $2 and t.trajectory = $3 and {not_erasing}

-- name: trajectories
select {counted_trajectories} from trajectories t {last_decision}
where t.tenant = $1 and t.session_id = $2 and {not_erasing} order by t.trajectory

-- name: trajectories_from
select {counted_trajectories} from trajectories t {last_decision}
where t.tenant = $1 and t.session_id = $2 and t.trajectory >= $3 and {not_erasing}
order by t.trajectory limit $4

-- name: settle_trajectory
-- count the rounds up to $4, whose decisions are about to go. With an upper bound alone, PostgreSQL
-- may read the whole session by position
update trajectories as t set (n_decisions, n_rounds, last_at) = (
    select d.number, d.round, d.at from decisions d
    where d.tenant = t.tenant and d.session_id = t.session_id and d.trajectory = t.trajectory
        and d.round > t.n_rounds and d.round <= $4
    order by d.round desc, d.number desc limit 1)
where tenant = $1 and session_id = $2 and trajectory = $3 and n_rounds < $4

-- name: alone
-- the only trajectory, if it has all positions of the session
select trajectory from trajectories t
where tenant = $1 and session_id = $2 and {not_erasing} and not exists (
    select 1 from sessions where tenant = $1 and id = $2 and n_erased_rounds > 0)
order by trajectory limit 2

-- name: measured_of_last
-- of each trajectory with a key in $3..$4: how many of its last $5 rounds a measurement covers.
-- Spans do not overlap, and values of one round are one round; a span may begin before those rounds.
-- A correction measures nothing new
select t.trajectory, coalesce((
    select count(distinct m.first_round) + sum(m.last_round - m.first_round) from measurements m
    where m.tenant = $1 and m.session_id = $2 and m.trajectory = t.trajectory
        and m.first_round > t.n_rounds - $5 and m.first_round <= t.n_rounds
        and m.replaces is null), 0) + coalesce((
    select {greatest}(m.last_round - (t.n_rounds - $5), 0) from measurements m
    where m.tenant = $1 and m.session_id = $2 and m.trajectory = t.trajectory
        and m.first_round <= t.n_rounds - $5
    order by m.first_round desc limit 1), 0)
from (
    select {counted_trajectories} from trajectories t {last_decision}
    where t.tenant = $1 and t.session_id = $2 and t.trajectory between $3 and $4) t

-- name: decision_by_event
select {decisions} from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and event_id = $4

-- name: decision_by_number
-- a round has one decision today, so the first candidate is the one
select {decisions} from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and round <= $4 and number = $4
order by round desc limit 1

-- name: decision_by_round
select {decisions} from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and round = $4 order by number limit 1

-- name: decision_before
select {decisions} from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and at <= $4
order by round desc, number desc limit 1

-- name: decisions
select {decisions} from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and round > $4 and round <= $5
order by round, number limit $6

-- name: measurement_over
-- in single mode measurements never overlap, but for corrections, which have the same rounds: the
-- last one that starts last is the only candidate
select {measurements} from (
    select * from measurements
    where tenant = $1 and session_id = $2 and trajectory = $3 and first_round <= $5
    order by first_round desc, number desc limit 1) m
where last_round >= $4

-- name: measurements
select {measurements} from measurements
where tenant = $1 and session_id = $2 and trajectory = $3 and first_round between $4 and $5
order by first_round, number

-- name: measurement_log
select {measurements} from measurements
where tenant = $1 and session_id = $2 and trajectory = $3 order by number

-- name: rounds_until
-- the decisions up to a position; in key order, because a fit sums in the order of its history
select trajectory, round, position, context from decisions
where tenant = $1 and session_id = $2 and position <= $3 order by trajectory, round, number

-- name: timed_decisions
-- with positions $3..$4, the first one left out. Those of the default trajectory, which has no index
-- by position, are among the rounds after $5, of which each has a position
select trajectory, round, position, at, context from (
    select trajectory, round, number, position, at, context from decisions
    where tenant = $1 and session_id = $2 and trajectory <> '' and position > $3 and position <= $4
    union all
    select trajectory, round, number, position, at, context from decisions
    where tenant = $1 and session_id = $2 and trajectory = '' and round > $5
        and round <= $5 + ($4 - $3) and position > $3 and position <= $4) d
order by trajectory, round, number

-- name: unnamed_after
-- the first round of the default trajectory after position $3: it is after round $3 - $4, where the
-- others have $4 rounds
select round from decisions
where tenant = $1 and session_id = $2 and trajectory = '' and round > $3 - $4 and position > $3
order by round limit 1

-- name: last_slot_sums
select {slot_sums} from slot_sums
where tenant = $1 and session_id = $2 and trajectory = '' and last_slot <= $3 and decided <= $4
order by last_slot desc limit 1

-- name: slot_sums_in
-- rows whose last slot is in a range, and up to $4
select {summed_slots} from {ranges} r cross join slot_sums s
where s.tenant = $1 and s.session_id = $2 and s.trajectory = r.trajectory
    and s.last_slot between r.first and r.last and s.last_slot <= $4

-- name: keep_slots
insert into slot_sums ({slot_sums}) values ({slot_sums_values})
on conflict (tenant, session_id, trajectory, last_slot) do update
    set decided = excluded.decided, sums = excluded.sums

-- name: erase_slots
delete from slot_sums where tenant = $1 and session_id = $2 and trajectory = $3

-- name: drop_slots
delete from slot_sums where tenant = $1 and session_id = $2 and last_slot >= $3

-- name: measurements_until
select trajectory, first_round, last_round, value, position, replaces, late from measurements
where tenant = $1 and session_id = $2 and position <= $3 order by trajectory, first_round, number

-- name: measurements_after
-- measurements with positions $3..$4, the first one left out; ordered by an expression, as SQLite
-- would rather read the whole session in the order of its key than sort these
select trajectory, first_round, last_round, value, position, replaces, late from measurements
where tenant = $1 and session_id = $2 and position > $3 and position <= $4
order by trajectory || '', first_round, number

-- name: replaced
-- positions of the first values of corrections with positions $3..$4, the first one left out
select min(replaces) from measurements
where tenant = $1 and session_id = $2 and position > $3 and position <= $4
    and replaces is not null

-- name: measurements_in
-- measurements that begin in ranges of rounds; with positions up to $4
select m.trajectory, m.first_round, m.last_round, m.value, m.position, m.replaces, m.late
from {ranges} r cross join measurements m
where m.tenant = $1 and m.session_id = $2 and m.trajectory = r.trajectory
    and m.first_round between r.first and r.last and m.position <= $4
order by m.trajectory, m.first_round, m.number

-- name: measurements_of
-- those of one range, in the order of the index
select first_round, last_round, value, position, replaces from measurements
where tenant = $1 and session_id = $2 and trajectory = $3
    and first_round between $4 and $5 and position <= $6
order by first_round, number

-- name: measurements_over
-- those, and the last one that begins before each range
select m.trajectory, m.first_round, m.last_round, m.value, m.position, m.replaces, m.late
from {ranges} r cross join measurements m
where m.tenant = $1 and m.session_id = $2 and m.trajectory = r.trajectory
    and m.first_round <= r.last and m.first_round >= coalesce((
        select max(b.first_round) from measurements b
        where b.tenant = $1 and b.session_id = $2 and b.trajectory = r.trajectory
            and b.first_round < r.first), 0)
    and m.position <= $4
order by m.trajectory, m.first_round, m.number

-- name: rounds_in
-- decisions of ranges of rounds; with positions up to $4
select d.trajectory, d.round, d.position, d.context from {ranges} r cross join decisions d
where d.tenant = $1 and d.session_id = $2 and d.trajectory = r.trajectory
    and d.round between r.first and r.last and d.position <= $4
order by d.trajectory, d.round, d.number

-- name: rounds_of
select round, position, context from decisions
where tenant = $1 and session_id = $2 and trajectory = $3
    and round between $4 and $5 and position <= $6
order by round, number

-- name: context_sets
-- of decisions at positions (the first number of a range). Those of the default trajectory, which
-- has no index by position, are there where its rounds are positions
select trajectory, position, contexts from (
select * from (
select d.trajectory, d.position, d.contexts from {ranges} r cross join decisions d
where d.tenant = $1 and d.session_id = $2 and d.trajectory <> '' and d.position = r.first
    and d.contexts is not null
) named
union all
select * from (
select d.trajectory, d.position, d.contexts from {ranges} r cross join decisions d
where d.tenant = $1 and d.session_id = $2 and d.trajectory = '' and d.round = r.first
    and d.position = r.first and d.contexts is not null
) unnamed
) s
order by position

-- name: covariates_in
-- of decisions of ranges of rounds, where they have any
select d.trajectory, d.round, d.covariates from {ranges} r cross join decisions d
where d.tenant = $1 and d.session_id = $2 and d.trajectory = r.trajectory
    and d.round between r.first and r.last and d.covariates is not null
order by d.trajectory, d.round, d.number

-- name: measured_covariates_in
-- of measurements that begin in ranges of rounds; with positions up to $4
select m.trajectory, m.first_round, m.position, m.covariates
from {ranges} r cross join measurements m
where m.tenant = $1 and m.session_id = $2 and m.trajectory = r.trajectory
    and m.first_round between r.first and r.last and m.position <= $4
    and m.covariates is not null
order by m.trajectory, m.position

-- name: kept_sums
select {kept_sums} from kept_sums where tenant = $1 and session_id = $2

-- name: sums_place
-- what the kept sums are of, without the sums
select estimate, first_round, last_round, n_settled, measured from kept_sums
where tenant = $1 and session_id = $2 and estimate > 0

-- name: oldest_measured
-- the least position of a round $5 after the first one of measurements with positions $3..$4, the
-- first one left out; with $6 also of late ones
select min((
    select d.position from decisions d
    where d.tenant = $1 and d.session_id = $2 and d.trajectory = m.trajectory
        and d.round = m.first_round + $5
    order by d.number limit 1))
from measurements m
where m.tenant = $1 and m.session_id = $2 and m.position > $3 and m.position <= $4
    and (m.late is null or $6)

-- name: late_rounds
-- of the values with positions up to $5 that came late, after decision $3 and up to the one before $4
select trajectory, first_round - 1, first_round + 2 from measurements
where tenant = $1 and session_id = $2 and late > $3 and late <= $4 and position <= $5

-- name: began_from
-- the first decision from a position on; in the default trajectory, which has no index by position,
-- it is after round $3 - $4, where the others have $4 rounds
select at from (
    select * from (
        select position, at from decisions
        where tenant = $1 and session_id = $2 and trajectory <> '' and position >= $3
        order by position limit 1) named
    union all
    select * from (
        select position, at from decisions
        where tenant = $1 and session_id = $2 and trajectory = '' and round >= $3 - $4
            and position >= $3
        order by round limit 1) unnamed) d
order by position limit 1

-- name: time_of_round
select at from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and round = $4 order by number limit 1

-- name: first_left
-- the first round of a trajectory whose row is there
select min(round) from decisions where tenant = $1 and session_id = $2 and trajectory = $3

-- name: keep_sums
insert into kept_sums ({kept_sums}) values ({kept_sums_values})
on conflict (tenant, session_id) do update set estimate = excluded.estimate,
    first_round = excluded.first_round, last_round = excluded.last_round,
    n_settled = excluded.n_settled, settled = excluded.settled, seen = excluded.seen,
    measured = excluded.measured, anew = excluded.anew

-- name: lift_sums
select {lift_sums} from lift_sums where tenant = $1 and session_id = $2

-- name: keep_lift_sums
insert into lift_sums ({lift_sums}) values ({lift_sums_values})
on conflict (tenant, session_id) do update set since = excluded.since,
    decided = excluded.decided, measured = excluded.measured, sums = excluded.sums

-- name: lift_units
-- those named by trajectory and block
select u.trajectory, u.block, u.rounds, u.reward, u.predicted from {ranges} r
cross join lift_units u
where u.tenant = $1 and u.session_id = $2 and u.since = $4 and u.trajectory = r.trajectory
    and u.block = r.first

-- name: keep_lift_unit
insert into lift_units ({lift_units}) values ({lift_units_values})
on conflict (tenant, session_id, since, trajectory, block) do update set
    rounds = excluded.rounds, reward = excluded.reward, predicted = excluded.predicted

-- name: unsummed
-- sessions with a trial that have rounds or rewards which are in no sums yet
select s.tenant, s.id from (
    select tenant, id, n_rounds, n_measurements from {all_of_sessions}
    where trial is not null and (tenant, id) > ($1, $2)) s
left join lift_sums l on l.tenant = s.tenant and l.session_id = s.id
where s.n_rounds > coalesce(l.decided, 0) or s.n_measurements > coalesce(l.measured, 0)
order by s.tenant, s.id limit $3

-- name: controlled_by
select name, id from sessions where tenant = $1 and trial is not null and {control} = $2
order by id limit 3

-- name: guards_tripped
select tenant, sum(case when {guard} = 'tripped' then 1 else 0 end) from sessions
where trial is not null group by tenant

-- name: played_in
-- the rounds of ranges that somebody of a trial has played; with positions up to $4
select {played} from {ranges} r cross join decisions d
where d.tenant = $1 and d.session_id = $2 and d.trajectory = r.trajectory
    and d.round between r.first and r.last and d.position <= $4 and d.played_by is not null
order by d.trajectory, d.round, d.number

-- name: erase_units
-- units of a trajectory: the index begins with `since`, of which there are few
with recursive each_since (since) as (
    select min(since) from lift_units where tenant = $1 and session_id = $2
    union all
    select (select min(u.since) from lift_units u
        where u.tenant = $1 and u.session_id = $2 and u.since > each_since.since)
    from each_since where since is not null)
delete from lift_units where tenant = $1 and session_id = $2 and trajectory = $3
    and since in (select since from each_since where since is not null)

-- name: next_dropped
-- the next decisions after round $4 of trajectory $3, in key order, each with the position up to
-- which it is needed: of the round $5 later, or of the last one of a shorter trajectory
select d.trajectory, d.round, coalesce((
        select l.position from decisions l
        where l.tenant = $1 and l.session_id = $2 and l.trajectory = d.trajectory
            and l.round >= d.round + $5
        order by l.round, l.number limit 1), (
        select l.position from decisions l
        where l.tenant = $1 and l.session_id = $2 and l.trajectory = d.trajectory
        order by l.round desc, l.number desc limit 1)),
    length(d.context) + length(d.scores) + coalesce(length(d.contexts), 0)
from decisions d
where d.tenant = $1 and d.session_id = $2 and (d.trajectory, d.round) > ($3, $4)
order by d.trajectory, d.round, d.number limit $6

-- name: dropped_complete
-- how many of the rounds $5..$6 a measurement covers; none is left that begins before round $4. The
-- bounds are those of one column: at a bound of several, PostgreSQL goes on to the trajectory's end
select coalesce(sum({least}(last_round, $6) - {greatest}(first_round, $5) + 1), 0)
from measurements
where tenant = $1 and session_id = $2 and trajectory = $3 and first_round between $4 and $6
    and replaces is null and last_round >= $5

-- name: drop_measurements
-- one that goes on in later rounds stays
delete from measurements
where tenant = $1 and session_id = $2 and trajectory = $3 and first_round between $4 and $5
    and last_round <= $5
returning 1

-- name: goes_on
select min(first_round) from measurements
where tenant = $1 and session_id = $2 and trajectory = $3 and first_round between $4 and $5

-- name: drop_voids
delete from voids
where tenant = $1 and session_id = $2 and trajectory = $3 and round between $4 and $5
returning 1

-- name: drop_decisions
delete from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and round between $4 and $5

-- name: drop_sums
delete from kept_sums where tenant = $1 and session_id = $2

-- name: selected_contexts
select round, position, context from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and round between $4 and $5
order by round, number

-- name: positions
select min(position) from decisions
where tenant = $1 and session_id = $2 and trajectory = $3 and round between $4 and $5
group by round order by round

-- name: insert_void
insert into voids ({voids}) values ({voids_values})

-- name: voids
-- with positions $3..$4, the first one left out; each with its decision's position and time
select t.trajectory, t.round, t.position, t.at, d.position, d.at from voids t
left join decisions d on d.tenant = t.tenant and d.session_id = t.session_id
    and d.trajectory = t.trajectory and d.round = t.round
where t.tenant = $1 and t.session_id = $2 and t.position > $3 and t.position <= $4
    and {not_erasing}
order by t.position

-- name: voids_in
-- the same of ranges of rounds; with positions up to $4
select v.trajectory, v.round, v.position, v.at, d.position, d.at
from {ranges} r cross join voids v
left join decisions d on d.tenant = v.tenant and d.session_id = v.session_id
    and d.trajectory = v.trajectory and d.round = v.round
where v.tenant = $1 and v.session_id = $2 and v.trajectory = r.trajectory
    and v.round between r.first and r.last and v.position <= $4

-- name: voids_of
select {voids} from voids
where tenant = $1 and session_id = $2 and trajectory = $3 and round between $4 and $5

-- name: insert_estimate
insert into estimates ({estimates}) values ({estimates_values})

-- name: estimates
select {estimates} from estimates
where tenant = $1 and session_id = $2 and number > $3 order by number limit $4

-- name: estimate
select {estimates} from estimates where tenant = $1 and session_id = $2 and number = $3

-- name: hidden
select {hidden_rows} from hidden_rows order by sweep_at, tenant, session_id

-- name: shown_until
-- the last round that readers see of a trajectory to which a log is being appended
select after_round from hidden_rows where tenant = $1 and session_id = $2 and trajectory = $3

-- name: hide
insert into hidden_rows ({hidden_rows}) values ({hidden_rows_values})
on conflict (tenant, session_id) do update set trajectory = excluded.trajectory,
    after_round = excluded.after_round, writer = excluded.writer, sweep_at = excluded.sweep_at

-- name: forget_hidden
delete from hidden_rows where tenant = $1 and session_id = $2

-- name: api_keys
select {api_keys} from api_keys order by tenant, created_at, id

-- name: save_api_key
insert into api_keys ({api_keys}) values ({api_keys_values})
-- nothing takes a revocation back, or puts an expiry off
on conflict (tenant, id) do update set
    revoked_at = coalesce(api_keys.revoked_at, excluded.revoked_at),
    expires_at = coalesce({least}(api_keys.expires_at, excluded.expires_at),
        api_keys.expires_at, excluded.expires_at)

-- name: use_api_key
update api_keys set last_used_at = $3 where tenant = $1 and id = $2

-- name: insert_audit
insert into audit ({audit}) values ({audit_values})

-- name: forget_audit
delete from audit where id <= $1

-- name: audit
-- of one tenant, or of all
select {audit} from audit
where ($1 or tenant = $2) and id > $3 order by id limit $4

-- name: limits
select {limits} from limits order by tenant, key_id

-- name: limit_of
select {limits} from limits where tenant = $1 and key_id = $2

-- name: save_limit
insert into limits ({limits}) values ({limits_values})
on conflict (tenant, key_id) do update set requests_per_second = excluded.requests_per_second,
    max_sessions = excluded.max_sessions, max_tenant_mb = excluded.max_tenant_mb

-- name: webhooks
select {webhooks} from webhooks where tenant = $1 order by created_at, id

-- name: save_webhook
insert into webhooks ({webhooks}) values ({webhooks_values})

-- name: note_attempt
update webhooks set last_error = $3, failed_at = coalesce($4, failed_at),
    delivered_at = coalesce($5, delivered_at), n_given_up = n_given_up + $6
where tenant = $1 and id = $2

-- name: remove_webhook
delete from webhooks where tenant = $1 and id = $2

-- name: remove_messages
delete from webhook_messages where tenant = $1 and webhook = $2

-- name: save_message
insert into webhook_messages ({webhook_messages}) values ({webhook_messages_values})
on conflict (tenant, webhook, id) do update set
    attempts = excluded.attempts, next_at = excluded.next_at

-- name: forget_message
delete from webhook_messages where tenant = $1 and webhook = $2 and id = $3

-- name: due_webhooks
select tenant, webhook from webhook_messages where next_at <= $1
group by tenant, webhook order by min(next_at) limit $2

-- name: waiting_messages
-- of one tenant, or of all
select tenant, webhook, count(*), min(next_at) from webhook_messages
where $1 or tenant = $2 group by tenant, webhook

-- name: messages_given_up
select tenant, coalesce(sum(n_given_up), 0) from webhooks group by tenant

-- name: check
select 1 from sessions limit 1
