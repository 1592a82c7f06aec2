-- 0006.sqlite.sql describes the columns
alter table sessions add column n_measurements bigint not null default 0;
alter table measurements add column position bigint;

update measurements m set position = n.position from (
    select tenant, session_id, trajectory, first_round, number,
        row_number() over (partition by tenant, session_id order by at, trajectory, number)
            as position
    from measurements) n
where m.tenant = n.tenant and m.session_id = n.session_id and m.trajectory = n.trajectory
    and m.first_round = n.first_round and m.number = n.number;
alter table measurements alter column position set not null;
create unique index measurements_by_position on measurements (tenant, session_id, position);
-- the default trajectory is mostly a session of its own, whose rounds are its positions
create index decisions_by_position on decisions (tenant, session_id, position)
    where trajectory <> '';

update sessions s set n_measurements = c.n from (
    select tenant, session_id, count(*) as n from measurements group by tenant, session_id) c
where s.tenant = c.tenant and s.id = c.session_id;
