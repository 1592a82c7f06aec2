-- Trajectories can be erased: how much of a session's counts that took, and whose rows are going.
alter table sessions add column n_erased_rounds integer not null default 0;
alter table sessions add column n_erased_measurements integer not null default 0;
alter table sessions add column erasing text;
