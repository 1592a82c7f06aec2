-- 0011.sqlite.sql describes the column
alter table measurements add column replaces bigint;
create index corrections on measurements (tenant, session_id, position) where replaces is not null;
