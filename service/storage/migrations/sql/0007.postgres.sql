-- 0007.sqlite.sql describes the column
alter table sessions add column names text;
