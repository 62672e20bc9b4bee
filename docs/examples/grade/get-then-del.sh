#!/usr/bin/env bash
# Broken: the check and the DEL are two commands (lesson 3).
# Fix it, and grade it: stock lab grade --only release-in-steps -- ./get-then-del.sh
set -u
redis() { redis-cli -h "$REDIS_HOST" -p "$REDIS_PORT" "$@"; }
try() { [ "$(redis SET "$1" "$2" NX PX "$LEASE_MS")" = OK ]; }
unlock() { [ "$(redis GET "$1")" = "$2" ] && redis DEL "$1" >/dev/null; }

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
