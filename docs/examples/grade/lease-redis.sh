#!/usr/bin/env bash
# A starter: SET NX PX, a token of its own, and compare-and-delete in one script. It has no watchdog and no fence.
set -u
unlock='if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0'
redis() { redis-cli -h "$REDIS_HOST" -p "$REDIS_PORT" "$@"; }

while read -r verb key argument; do
  case $verb in
  acquire)
    token=$$-$RANDOM$RANDOM
    until=$((${EPOCHREALTIME/./} / 1000 + argument)) # WAIT_MS from now
    while :; do
      reply=$(redis SET "$key" "$token" NX PX "$LEASE_MS") || reply="error $reply"
      [ "$reply" = OK ] && echo "ok $token" && break
      [ "${reply%% *}" = error ] && echo "$reply" && break
      ((${EPOCHREALTIME/./} / 1000 >= until)) && echo busy && break
      sleep 0.02
    done
    ;;
  release) redis EVAL "$unlock" 1 "$key" "$argument" >/dev/null && echo ok || echo error not released ;;
  esac
done
