#!/usr/bin/env bash
# Broken: each pause is ten times as long as the one before it, so it waits while the lock is free (lesson 10).
# Fix it, and grade it: stock lab grade --only hundred-waiters -- ./backoff.sh
set -u
redis() { redis-cli -h "$REDIS_HOST" -p "$REDIS_PORT" "$@"; }
try() { [ "$(redis SET "$1" "$2" NX PX "$LEASE_MS")" = OK ]; }
script='if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0'
unlock() { [ "$(redis EVAL "$script" 1 "$1" "$2")" = 1 ]; }

while read -r verb key argument; do
  case $verb in
  acquire)
    token=$$-$RANDOM$RANDOM
    deadline=$((${EPOCHREALTIME//[.,]/} / 1000 + argument))
    pause=1
    until try "$key" "$token"; do
      if ((${EPOCHREALTIME//[.,]/} / 1000 >= deadline)); then token="" && break; fi
      sleep "$((pause / 10)).$((pause % 10))"
      pause=$((pause * 10))
    done
    if [ -n "$token" ]; then echo "ok $token"; else echo busy; fi
    ;;
  release) if unlock "$key" "$argument"; then echo ok; else echo error not released; fi ;;
  esac
done
