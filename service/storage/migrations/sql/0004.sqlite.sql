-- Every commit changes the counters of its sessions. A table of their own makes their rows short:
-- they are faster to write, and many share a page.
create table session_counts (
    tenant text not null,
    session_id text not null,
    n_rounds integer not null,         -- over all trajectories
    n_trajectories integer not null,
    n_complete integer not null,       -- complete rounds of the last open window
    primary key (tenant, session_id)
) without rowid;

insert into session_counts select tenant, id, n_rounds, n_trajectories, n_complete from sessions;
alter table sessions drop column n_rounds;
alter table sessions drop column n_trajectories;
alter table sessions drop column n_complete;
