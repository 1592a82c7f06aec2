-- What every commit changes of a session, apart from what it does not: a row of a few numbers is
-- written in a third of the time, and many of them are on one page.
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
