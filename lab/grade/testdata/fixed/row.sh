#!/usr/bin/env bash
# The row expires by the clock of the server.
set -u
sql() { mysql -u root --skip-column-names -e "$1" stock; } # the server is in MYSQL_HOST and MYSQL_TCP_PORT
sql "CREATE TABLE IF NOT EXISTS locks (k VARCHAR(64) PRIMARY KEY, token VARCHAR(64), expires DATETIME(3))"
try() {
  [ "$(sql "DELETE FROM locks WHERE k = '$1' AND expires < NOW(3);
    INSERT IGNORE INTO locks VALUES ('$1', '$2', NOW(3) + INTERVAL $LEASE_MS * 1000 MICROSECOND);
    SELECT ROW_COUNT()")" = 1 ]
}
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
