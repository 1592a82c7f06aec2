-- what a key allows ("reader", "writer" or "admin"), until when, and when it was last used, to
-- about a minute
alter table api_keys add column role text not null default 'writer';
alter table api_keys add column expires_at real;
alter table api_keys add column last_used_at real;

-- who changed keys and sessions
create table audit (
    tenant text not null,              -- whose key or session was changed
    id text not null,                  -- sorts by time, like a session's
    at real not null,
    actor text,                        -- id of the key; null: no key was needed
    request_id text,                   -- null: it was no request
    action text not null,
    subject text not null,             -- id of the key or the session
    detail text not null,              -- JSON object
    primary key (tenant, id)
) without rowid;

create index audit_by_id on audit (id);
