-- 0017.sqlite.sql describes the columns
alter table decisions add column covariates text collate "C";
alter table measurements add column covariates text collate "C";
