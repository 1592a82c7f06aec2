-- 0018.sqlite.sql describes the column
alter table sessions add column clock text collate "C";
