-- Statements that read a window: the decisions of a session with positions $3..$4. {spans} is a row
-- for each of its trajectories, with the first and the last round in the window.

-- name: rounds
-- with the $5 rounds before them in each trajectory; in key order, because a fit sums in the order
-- of its history
select d.trajectory, d.round, d.position, d.context from {spans} w cross join decisions d
where d.tenant = $1 and d.session_id = $2 and d.trajectory = w.trajectory
    and d.round between w.first - $5 and w.last
order by d.trajectory, d.round, d.number

-- name: spans
-- the condition is true; it tells PostgreSQL the parameters' types where nothing else does
select w.trajectory, w.first, w.last from {spans} w
where $1{as_text} = $1{as_text} and $2{as_text} = $2{as_text}

-- name: count_rounds
-- how many rounds there are; the condition is as above
select coalesce(sum(w.last - w.first + 1), 0) from {spans} w
where $1{as_text} = $1{as_text} and $2{as_text} = $2{as_text}

-- name: measurements
-- measurements with positions up to $6 that begin in the rounds above, and the one before them in
-- each trajectory, which may reach into them
select m.trajectory, m.first_round, m.last_round, m.value, m.position, m.replaces, m.late
from {spans} w cross join measurements m
where m.tenant = $1 and m.session_id = $2 and m.trajectory = w.trajectory
    and m.first_round <= w.last and m.first_round >= coalesce((
        select max(b.first_round) from measurements b
        where b.tenant = $1 and b.session_id = $2 and b.trajectory = w.trajectory
            and b.first_round < w.first - $5), 0)
    and m.position <= $6
order by m.trajectory, m.first_round, m.number

-- name: closed
-- the last closed round of each trajectory: of the decisions up to position $5, the next one was
-- taken by $6
select d.trajectory, max(d.round) - 1 from {spans} w cross join decisions d
where d.tenant = $1 and d.session_id = $2 and d.trajectory = w.trajectory
    and d.round between w.first and w.last + 1 and d.position <= $5 and d.at <= $6
group by d.trajectory

-- name: first_began_after
select min(d.position) from {spans} w cross join decisions d
where d.tenant = $1 and d.session_id = $2 and d.trajectory = w.trajectory
    and d.round between w.first and w.last and d.at > $5

-- name: oldest_open
-- the least position of a round that a decision of the window follows, or that a value of such a
-- decision's round begins with
select min((
    select d.position from decisions d
    where d.tenant = $1 and d.session_id = $2 and d.trajectory = w.trajectory
        and d.round >= coalesce((
            select b.first_round from (
                select m.first_round, m.last_round from measurements m
                where m.tenant = $1 and m.session_id = $2 and m.trajectory = w.trajectory
                    and m.first_round < w.first
                order by m.first_round desc limit 1) b
            where b.last_round >= w.first), w.first - 1)
    order by d.round, d.number limit 1))
from {spans} w

-- name: count_measured
-- how many of the rounds a measurement covers; in single mode measurements never overlap, but for
-- corrections
select coalesce(sum(
    {least}(m.last_round, w.last) - {greatest}(m.first_round, w.first) + 1), 0)
from {spans} w cross join measurements m
where m.tenant = $1 and m.session_id = $2 and m.trajectory = w.trajectory
    and m.replaces is null and m.first_round <= w.last and m.last_round >= w.first
    and m.first_round >= coalesce((
        select max(b.first_round) from measurements b
        where b.tenant = $1 and b.session_id = $2 and b.trajectory = w.trajectory
            and b.first_round < w.first), 0)

-- name: closed_at
-- among unmeasured rounds: how many have no next decision, and the latest time of one
select count(*) - count(following), max(following) from (
    select (
        select n.at from decisions n
        where n.tenant = $1 and n.session_id = $2 and n.trajectory = d.trajectory
            and n.round = d.round + 1
        limit 1) as following
    from {spans} w cross join decisions d
    where d.tenant = $1 and d.session_id = $2 and d.trajectory = w.trajectory
        and d.round between w.first and w.last
        and d.round > coalesce((
            select m.last_round from measurements m
            where m.tenant = $1 and m.session_id = $2 and m.trajectory = d.trajectory
                and m.first_round <= d.round
            order by m.first_round desc limit 1), 0)
) unmeasured

-- name: taken
-- position, time, and whether the arm was explored, of each round; null where others chose, or none
select d.position, d.at, case when d.arm is not null and not d.forced then d.explored end
from {spans} w cross join decisions d
where d.tenant = $1 and d.session_id = $2 and d.trajectory = w.trajectory
    and d.round between w.first and w.last
order by d.position

-- name: chosen
select d.trajectory, d.round, d.position, d.at, d.arm, d.arm_id, d.context, exists (
    select 1 from voids v where v.tenant = $1 and v.session_id = $2
        and v.trajectory = d.trajectory and v.round = d.round),
    coalesce(d.played_by, case when d.forced then 'caller' else 'agent' end)
from {spans} w cross join decisions d
where d.tenant = $1 and d.session_id = $2 and d.trajectory = w.trajectory
    and d.round between w.first and w.last
order by d.trajectory, d.round, d.number

-- name: arrivals
-- of each measurement within the rounds: seconds from the decision of its last round until it came,
-- and whether its trajectory's next round had begun
select m.at - (
        select d.at from decisions d
        where d.tenant = $1 and d.session_id = $2 and d.trajectory = m.trajectory
            and d.round = m.last_round
        limit 1),
    coalesce((
        select n.at from decisions n
        where n.tenant = $1 and n.session_id = $2 and n.trajectory = m.trajectory
            and n.round = m.last_round + 1
        limit 1) < m.at, false)
from {spans} w cross join measurements m
where m.tenant = $1 and m.session_id = $2 and m.trajectory = w.trajectory
    and m.first_round between w.first and w.last and m.last_round <= w.last and m.replaces is null

-- name: played
-- the rounds that somebody of a trial has played
select {played} from {spans} w cross join decisions d
where d.tenant = $1 and d.session_id = $2 and d.trajectory = w.trajectory
    and d.round between w.first and w.last and d.position between $3 and $4
    and d.played_by is not null
order by d.position
