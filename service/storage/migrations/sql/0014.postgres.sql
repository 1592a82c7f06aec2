-- 0014.sqlite.sql describes the columns
alter table sessions add column keep_contexts boolean not null default false;
alter table decisions add column contexts bytea;
