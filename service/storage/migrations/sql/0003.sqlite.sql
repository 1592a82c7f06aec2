-- Store decisions in order of arrival (rowid), with the key as an index: a commit then appends to
-- the last pages of the table instead of changing a page of each session.
drop index decisions_by_event;
alter table decisions rename to decisions_by_key;

create table decisions (
    tenant text not null,
    session_id text not null,
    trajectory text not null,
    round integer not null,
    number integer not null,           -- within the trajectory; today one a round
    position integer not null,         -- of the round, in the session as a whole
    event_id text,                     -- the client's; null: the server's, "~<number>"
    digest blob,                       -- of the request, where the client gave an event id
    arm integer,                       -- null: a round without action
    arm_id text,
    context blob not null,             -- selected context; empty without action
    scores blob not null,
    propensity real,
    explored integer not null,
    forced integer not null,
    epoch integer not null,
    model_version integer not null,
    next_fit_round integer,
    at real not null,
    primary key (tenant, session_id, trajectory, round, number)
);

insert into decisions select * from decisions_by_key
    order by tenant, session_id, trajectory, round, number;
drop table decisions_by_key;
create unique index decisions_by_event
    on decisions (tenant, session_id, trajectory, event_id) where event_id is not null;
