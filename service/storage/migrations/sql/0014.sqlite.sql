-- whether the contexts of all arms are kept
alter table sessions add column keep_contexts integer not null default 0;
-- of a decision in such a session: see service/session/kept_contexts.py
alter table decisions add column contexts blob;
