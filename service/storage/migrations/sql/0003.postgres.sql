-- Nothing to change: PostgreSQL does not cluster rows by key.
comment on table decisions is 'in order of arrival, found by their keys';
