-- The moments of a session's past, from which its next fit goes on. They follow from the rows: a
-- session without them gets them at its next fit.
create table kept_sums (
    tenant text not null,
    session_id text not null,
    estimate integer not null,         -- number of the installed estimate; 0: none
    first_round integer not null,      -- rows of earlier rounds of the session do not count
    last_round integer not null,       -- last round of the rows that are settled
    n_settled integer not null,        -- measurements, in order of arrival
    settled blob not null,             -- moments of their rows
    seen blob,                         -- moments of the rows that the installed estimate's fit used
    primary key (tenant, session_id)
);
