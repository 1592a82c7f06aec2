-- 0019.sqlite.sql describes the columns
alter table sessions add column keep_rounds bigint;
alter table sessions add column keep_days double precision;
alter table sessions add column dropped_to bigint not null default 0;
alter table sessions add column swept_to bigint not null default 0;
alter table sessions add column n_dropped_rounds bigint not null default 0;
alter table sessions add column n_dropped_measurements bigint not null default 0;
alter table sessions add column n_dropped_complete bigint not null default 0;
create index sessions_with_retention on sessions (tenant, id)
    where keep_rounds is not null or keep_days is not null or swept_to < dropped_to;
