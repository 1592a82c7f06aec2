-- 0002.sqlite.sql describes the columns
create table api_keys (
    tenant text collate "C" not null,
    id text collate "C" not null,
    digest bytea not null,
    label text not null,
    created_at double precision not null,
    revoked_at double precision,
    primary key (tenant, id)
);

create unique index api_keys_by_digest on api_keys (digest);

alter table sessions add column created_as text collate "C";
update sessions set created_as = name;
create index sessions_by_created_as on sessions (tenant, created_as) where created_as is not null;
