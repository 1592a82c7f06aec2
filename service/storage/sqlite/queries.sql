-- Statements for SQLite alone: the counters of a session are in a table of their own, and one
-- statement writes many rows.

-- name: insert_session
insert into sessions ({session_columns}) values ({session_values})

-- name: update_session
update sessions set {session_updates} where tenant = $1 and id = $2

-- name: count_session
insert into session_counts (tenant, session_id, n_rounds, n_trajectories, n_measurements, n_complete)
values (?,?,?,?,?,?)
on conflict (tenant, session_id) do update set
    n_rounds = excluded.n_rounds, n_trajectories = excluded.n_trajectories,
    n_measurements = excluded.n_measurements, n_complete = excluded.n_complete

-- name: save_agent_state
insert into agent_states values (?,?,?)
on conflict (tenant, session_id) do update set state = excluded.state

-- name: save_trajectory
insert into trajectories ({trajectories}) values {trajectories_row}
on conflict (tenant, session_id, trajectory) do update set {trajectory_updates}

-- name: trajectories_by_keys
select {counted_trajectories} from (values (?,?,?)) as v cross join trajectories t {last_decision}
where t.tenant = v.column1 and t.session_id = v.column2 and t.trajectory = v.column3
    and {not_erasing}

-- name: decisions_by_events
select {decisions} from (values (?,?,?,?)) as v cross join decisions d
where d.tenant = v.column1 and d.session_id = v.column2 and d.trajectory = v.column3
    and d.event_id = v.column4

-- name: insert_decision
-- "or fail" avoids the statement journal, which would let SQLite undo this statement alone: a
-- refused row fails the whole transaction anyway
insert or fail into decisions ({decisions}) values {decisions_row}

-- name: measurements_by_ids
select {measurements} from (values (?,?,?,?)) as v cross join measurements m
where m.tenant = v.column1 and m.session_id = v.column2 and m.trajectory = v.column3
    and m.reward_id = v.column4

-- name: n_bytes
select page_count * page_size from pragma_page_count, pragma_page_size

-- name: hidden_rows
select {hidden_rows} from hidden_rows where tenant = $1 and session_id = $2

-- name: due_message
select {webhook_messages} from webhook_messages
where tenant = $1 and webhook = $2 and next_at <= $3 order by next_at limit 1

-- name: insert_measurement
insert or fail into measurements ({measurements}) values {measurements_row}

-- name: joined_rounds
-- the rows of `rounds_of` as text by column; 0 if all have contexts, and these are of one length;
-- nothing where contexts as long as the first one would take more than 64 MB
select group_concat(round), group_concat(position),
    nullif(count(*) * max(length(context)), 0) - sum(length(context)),
    cast(group_concat(context, '') as blob)
from decisions
where tenant = $1 and session_id = $2 and trajectory = $3
    and round between $4 and $5 and position <= $6
    and (select length(context) from decisions where tenant = $1 and session_id = $2
        and trajectory = $3 and round = $4) between 1 and (1 << 26) / ($5 - $4 + 1)
