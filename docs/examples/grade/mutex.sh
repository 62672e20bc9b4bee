#!/usr/bin/env bash
# Broken: the lock is in the memory of one process (lesson 2).
# Fix it, and grade it: stock lab grade --only thirty-at-once -- ./mutex.sh
set -u
declare -A holder
try() { [ -z "${holder[$1]-}" ] && holder[$1]=$2; }
unlock() { holder[$1]=""; }

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
