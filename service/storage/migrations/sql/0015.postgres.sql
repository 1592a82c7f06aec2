-- changes of a session's options: JSON, see service/session/option_changes.py
alter table sessions add column changes text;
