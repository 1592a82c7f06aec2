-- 0020.sqlite.sql describes the table
create table slot_sums (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    trajectory text collate "C" not null, -- the default one has a row of every stretch
    stretch bigint not null,           -- of slots, from 0
    decided bigint not null,           -- decisions of all later slots have positions after this one
    sums bytea not null,               -- float64, a context for each slot of the stretch
    primary key (tenant, session_id, trajectory, stretch)
);
