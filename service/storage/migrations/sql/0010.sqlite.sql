-- what a session compares its agent with: JSON, see service/session/trial.py
alter table sessions add column trial text;
-- of a decision in such a session: who played, and the arm that the agent chose
alter table decisions add column played_by text;
alter table decisions add column agent_arm integer;
