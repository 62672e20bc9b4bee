#!/usr/bin/env bash
# Broken: the row of a dead holder stays (lesson 8).
# Fix it, and grade it: stock lab grade --only holder-killed -- ./row.sh
set -u
sql() { mysql -u root --skip-column-names -e "$1" stock; } # the server is in MYSQL_HOST and MYSQL_TCP_PORT
sql "CREATE TABLE IF NOT EXISTS locks (k VARCHAR(64) PRIMARY KEY, token VARCHAR(64), expires DATETIME(3))"
try() { [ "$(sql "INSERT IGNORE INTO locks VALUES ('$1', '$2', NULL); SELECT ROW_COUNT()")" = 1 ]; }
unlock() { [ "$(sql "DELETE FROM locks WHERE k = '$1' AND token = '$2'; SELECT ROW_COUNT()")" = 1 ]; }

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
