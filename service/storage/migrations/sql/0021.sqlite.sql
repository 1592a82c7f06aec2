-- Summed slots are kept without those that have no decision, in stretches that also end before too
-- many trajectories or decisions. They follow from the decisions, and the moments from them and from
-- the totals: the next fit of each session with a clock adds both up again.
drop table slot_sums;
create table slot_sums (
    tenant text not null,
    session_id text not null,
    trajectory text not null,          -- the default one has a row wherever another has one
    last_slot integer not null,        -- after the row before up to this one
    decided integer not null,          -- decisions of all later slots have positions after this one
    sums blob not null,                -- float64: slots that have decisions, each with its context
    primary key (tenant, session_id, trajectory, last_slot)
);
create index slot_sums_by_slot on slot_sums (tenant, session_id, last_slot);
delete from kept_sums where exists (
    select 1 from sessions s
    where s.tenant = kept_sums.tenant and s.id = kept_sums.session_id and s.clock is not null);
