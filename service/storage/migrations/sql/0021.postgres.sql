-- 0021.sqlite.sql describes the table
drop table slot_sums;
create table slot_sums (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    trajectory text collate "C" not null, -- the default one has a row wherever another has one
    last_slot bigint not null,         -- after the row before up to this one
    decided bigint not null,           -- decisions of all later slots have positions after this one
    sums bytea not null,               -- float64: slots that have decisions, each with its context
    primary key (tenant, session_id, trajectory, last_slot)
);
create index slot_sums_by_slot on slot_sums (tenant, session_id, last_slot);
delete from kept_sums where exists (
    select 1 from sessions s
    where s.tenant = kept_sums.tenant and s.id = kept_sums.session_id and s.clock is not null);
