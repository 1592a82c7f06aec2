-- Rows that no reader sees, at most one note a session: those of an import or a log that is being
-- written in slices, and those of a deleted session. A sweep deletes the rows in slices, then the
-- note.
create table hidden_rows (
    tenant text not null,
    session_id text not null,
    trajectory text,                   -- null: the rows of all trajectories
    after_round integer not null,      -- only the rounds after this one
    writer text,                       -- token of the write under way; null: nobody writes
    sweep_at real not null,            -- until then they are the writer's; every slice renews it
    primary key (tenant, session_id)
) without rowid;

-- the token of the log that is being appended: nothing else may change the session meanwhile
alter table sessions add column append_token text;
