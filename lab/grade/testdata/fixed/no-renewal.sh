#!/usr/bin/env bash
# A watchdog renews the lease until the release, or until this process dies.
set -u
redis() { redis-cli -h "$REDIS_HOST" -p "$REDIS_PORT" "$@"; }
renewal='if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end return 0'
third=$(printf '%d.%03d' $((LEASE_MS / 3000)) $((LEASE_MS / 3 % 1000)))
renew() { while sleep "$third" && [ "$(redis EVAL "$renewal" 1 "$1" "$2" "$LEASE_MS")" = 1 ]; do :; done; }
try() {
  [ "$(redis SET "$1" "$2" NX PX "$LEASE_MS")" = OK ] || return 1
  renew "$1" "$2" </dev/null >/dev/null 2>&1 & # it must not keep the pipes open
  watchdog=$!
}
script='if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0'
unlock() {
  kill "$watchdog" && wait "$watchdog"
  [ "$(redis EVAL "$script" 1 "$1" "$2")" = 1 ]
}

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
