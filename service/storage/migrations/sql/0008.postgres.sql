-- 0008.sqlite.sql describes the columns
alter table api_keys add column role text collate "C" not null default 'writer';
alter table api_keys add column expires_at double precision;
alter table api_keys add column last_used_at double precision;

create table audit (
    tenant text collate "C" not null,
    id text collate "C" not null,
    at double precision not null,
    actor text,
    request_id text,
    action text not null,
    subject text not null,
    detail text not null,
    primary key (tenant, id)
);

create index audit_by_id on audit (id);
