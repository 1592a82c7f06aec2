-- 0005.sqlite.sql describes the columns
create table hidden_rows (
    tenant text collate "C" not null,
    session_id text collate "C" not null,
    trajectory text collate "C",
    after_round bigint not null,
    writer text,
    sweep_at double precision not null,
    primary key (tenant, session_id)
);

alter table sessions add column append_token text;
