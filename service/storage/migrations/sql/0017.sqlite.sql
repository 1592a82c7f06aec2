-- Decisions and rewards may carry covariates of their rounds: JSON of those given, by name.
alter table decisions add column covariates text;
alter table measurements add column covariates text;
