#!/bin/sh
# Run once, when the PostgreSQL of docker-compose.yml makes its data folder: the service gets a role
# that owns its database and nothing else. The superuser then has no password: it is let in by the
# container's own socket only.
set -eu
password=$(cat "${LHB_PASSWORD_FILE:-/run/secrets/postgres_password}")
psql -v ON_ERROR_STOP=1 -v password="$password" --username "$POSTGRES_USER" --dbname postgres <<'SQL'
create role lhb login nosuperuser nocreatedb nocreaterole noreplication password :'password';
create database lhb owner lhb;
revoke all on database lhb from public;
SQL
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname lhb <<'SQL'
revoke all on schema public from public;
alter schema public owner to lhb;
SQL
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
  -c "alter role current_user password null"
