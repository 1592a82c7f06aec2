-- The summed contexts of old slots of sessions with a clock, which take no decision any more. They
-- follow from the decisions: the next fit of a session without them adds these up.
create table slot_sums (
    tenant text not null,
    session_id text not null,
    trajectory text not null,          -- the default one has a row of every stretch
    stretch integer not null,          -- of slots, from 0
    decided integer not null,          -- decisions of all later slots have positions after this one
    sums blob not null,                -- float64, a context for each slot of the stretch
    primary key (tenant, session_id, trajectory, stretch)
);
