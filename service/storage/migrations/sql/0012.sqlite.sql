-- Decisions that were never shown. Their positions are in one order with those of measurements.
create table voids (
    tenant text not null,
    session_id text not null,
    trajectory text not null,
    round integer not null,
    position integer not null,
    at real not null,
    primary key (tenant, session_id, trajectory, round, position)
) without rowid;

-- up to which measurement the sums know corrections and voids; they are made again by the next fit
delete from kept_sums;
alter table kept_sums add column measured integer not null default 0;
