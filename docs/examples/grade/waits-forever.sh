#!/usr/bin/env bash
# Broken: it does not look at WAIT_MS (lesson 10).
# Fix it, and grade it: stock lab grade --only two-keys -- ./waits-forever.sh
set -u
redis() { redis-cli -h "$REDIS_HOST" -p "$REDIS_PORT" "$@"; }
try() { [ "$(redis SET "$1" "$2" NX PX "$LEASE_MS")" = OK ]; }
script='if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0'
unlock() { [ "$(redis EVAL "$script" 1 "$1" "$2")" = 1 ]; }

while read -r verb key argument; do
  case $verb in
  acquire)
    token=$$-$RANDOM$RANDOM
    until try "$key" "$token"; do
      sleep 0.02
    done
    echo "ok $token"
    ;;
  release) if unlock "$key" "$argument"; then echo ok; else echo error not released; fi ;;
  esac
done
