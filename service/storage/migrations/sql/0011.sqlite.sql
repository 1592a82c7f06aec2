-- A correction is a measurement of the same rounds that replaces an earlier one, which stays.
alter table measurements add column replaces integer; -- position of the first value; null: it is that
create index corrections on measurements (tenant, session_id, position) where replaces is not null;
