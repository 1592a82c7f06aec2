-- 0016.sqlite.sql describes the columns
alter table sessions add column n_erased_rounds bigint not null default 0;
alter table sessions add column n_erased_measurements bigint not null default 0;
alter table sessions add column erasing text collate "C";
