-- 0010.sqlite.sql describes the columns
alter table sessions add column trial text;
alter table decisions add column played_by text;
alter table decisions add column agent_arm bigint;
