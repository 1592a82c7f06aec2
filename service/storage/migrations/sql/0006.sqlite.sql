-- Number measurements in their session too, in the order in which they were committed. A fit's
-- manifest then names the last one that it may use, whatever the number of trajectories.
alter table session_counts add column n_measurements integer not null default 0;

drop index measurements_by_reward_id;
alter table measurements rename to measurements_unnumbered;

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
    primary key (tenant, session_id, trajectory, first_round, number)
) without rowid;

insert into measurements
    select tenant, session_id, trajectory, first_round, last_round, number,
        row_number() over (partition by tenant, session_id order by at, trajectory, number),
        value, reward_id, at
    from measurements_unnumbered order by tenant, session_id, trajectory, first_round, number;
drop table measurements_unnumbered;
create unique index measurements_by_reward_id
    on measurements (tenant, session_id, trajectory, reward_id) where reward_id is not null;
create unique index measurements_by_position on measurements (tenant, session_id, position);
-- the default trajectory is mostly a session of its own, whose rounds are its positions
create index decisions_by_position on decisions (tenant, session_id, position)
    where trajectory <> '';

update session_counts set n_measurements = (
    select count(*) from measurements m
    where m.tenant = session_counts.tenant and m.session_id = session_counts.session_id);
