-- API keys; a key authenticates its tenant. Only digests are stored.
create table api_keys (
    tenant text not null,
    id text not null,                  -- the digest's first 12 hexadecimal digits
    digest blob not null,              -- SHA-256 of the key
    label text not null,
    created_at real not null,
    revoked_at real,
    primary key (tenant, id)
) without rowid;

create unique index api_keys_by_digest on api_keys (digest);

-- the name a session was created under: a repeated creation finds it, even if it was renamed
alter table sessions add column created_as text;
update sessions set created_as = name;
create index sessions_by_created_as on sessions (tenant, created_as) where created_as is not null;
