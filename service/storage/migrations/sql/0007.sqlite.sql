-- what the numbers of contexts, and the arms, are called: JSON, see service/session/names.py
alter table sessions add column names text;
