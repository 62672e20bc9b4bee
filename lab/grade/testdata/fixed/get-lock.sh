#!/usr/bin/env bash
# One session for all statements of this process.
set -u
coproc DB { exec mysql -u root --skip-column-names --unbuffered stock; }
ask() { echo "$1;" >&"${DB[1]}" && read -r answer <&"${DB[0]}" && [ "$answer" = 1 ]; }
try() { ask "SELECT GET_LOCK('$1', 0)"; }
unlock() { ask "SELECT RELEASE_LOCK('$1')"; }

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
