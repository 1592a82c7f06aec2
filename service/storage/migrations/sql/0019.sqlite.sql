-- Sessions can drop the rows of old rounds (retention). Their kept sums are then no cache: no fit can
-- add up the dropped rows again, so no migration may delete sums where dropped_to > 0.
alter table sessions add column keep_rounds integer;
alter table sessions add column keep_days real;
alter table sessions add column dropped_to integer not null default 0;
alter table sessions add column swept_to integer not null default 0;
alter table sessions add column n_dropped_rounds integer not null default 0;
alter table sessions add column n_dropped_measurements integer not null default 0;
alter table sessions add column n_dropped_complete integer not null default 0;
create index sessions_with_retention on sessions (tenant, id)
    where keep_rounds is not null or keep_days is not null or swept_to < dropped_to;
