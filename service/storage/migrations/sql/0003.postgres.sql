-- PostgreSQL keeps rows in order of arrival anyway: nothing to change.
comment on table decisions is 'in order of arrival, found by their keys';
