#!/usr/bin/env bash
# Broken: GET_LOCK belongs to a session, which ends with this mysql (lesson 8).
# Fix it, and grade it: stock lab grade --only thirty-at-once -- ./get-lock.sh
set -u
sql() { mysql -u root --skip-column-names -e "$1" stock; } # the server is in MYSQL_HOST and MYSQL_TCP_PORT
try() { [ "$(sql "SELECT GET_LOCK('$1', 0)")" = 1 ]; }
unlock() { sql "DO RELEASE_LOCK('$1')"; }

while read -r verb key argument; do
  case $verb in
  acquire)
    token=$$-$RANDOM$RANDOM
    deadline=$((${EPOCHREALTIME//[.,]/} / 1000 + argument))
    until try "$key" "$token"; do
      if ((${EPOCHREALTIME//[.,]/} / 1000 >= deadline)); then token="" && break; fi
      sleep 0.02
    done
    if [ -n "$token" ]; then echo "ok $token"; else echo busy; fi
    ;;
  release) if unlock "$key" "$argument"; then echo ok; else echo error not released; fi ;;
  esac
done
