-- Nothing to change: PostgreSQL keeps the counters in the session row, which it locks anyway.
comment on table sessions is 'a row a session, its counters with it';
