-- PostgreSQL counts in the row that it locks anyway: nothing to change.
comment on table sessions is 'a row a session, its counters with it';
