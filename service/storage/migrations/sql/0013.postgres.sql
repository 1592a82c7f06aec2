-- 0013.sqlite.sql describes the tables
create table lift_sums (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    since bigint not null,
    decided bigint not null,
    measured bigint not null,
    sums text not null,
    primary key (tenant, session_id)
);
create table lift_units (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    since bigint not null,
    trajectory text collate "C" not null,
    block bigint not null,
    rounds double precision not null,
    reward double precision not null,
    predicted double precision not null,
    primary key (tenant, session_id, since, trajectory, block)
);
create index sessions_with_trial on sessions (tenant, id) where trial is not null;
