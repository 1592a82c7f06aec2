-- JSON of the session's clock (service/session/slot_clock.py); null: lags count decisions
alter table sessions add column clock text;
