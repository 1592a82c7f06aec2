-- 0009.sqlite.sql describes the table
create table kept_sums (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    estimate bigint not null,         -- number of the installed estimate; 0: none
    first_round bigint not null,      -- rows of earlier rounds of the session do not count
    last_round bigint not null,       -- last round of the rows that are settled
    n_settled bigint not null,        -- measurements, in order of arrival
    settled bytea not null,             -- moments of their rows
    seen bytea,                         -- moments of the rows that the installed estimate's fit used
    primary key (tenant, session_id)
);
