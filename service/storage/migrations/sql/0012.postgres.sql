-- 0012.sqlite.sql describes the table
create table voids (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    trajectory text collate "C" not null,
    round bigint not null,
    position bigint not null,
    at double precision not null,
    primary key (tenant, session_id, trajectory, round, position)
);

-- up to which measurement the sums know corrections and voids; they are made again by the next fit
delete from kept_sums;
alter table kept_sums add column measured bigint not null default 0;
