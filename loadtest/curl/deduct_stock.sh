#!/bin/sh
# Sells over HTTP with nothing but curl and xargs, and counts the replies by what they mean.
#
#   stock verdict --sku stock --set 100
#   loadtest/curl/deduct_stock.sh 'http://localhost:8080/deduct_stock?sku=stock' 300 30 >curl.txt
#   stock verdict --sku stock --from curl.txt
#
# A process for each request is slow (some hundred requests a second), and enough to see the race.
set -eu
url=${1:?"usage: $0 URL [REQUESTS [WORKERS]]"}
requests=${2:-300}
workers=${3:-30}

# The status is a line of four bytes, written at once: lines of several curl do not mix.
seq "$requests" |
  { xargs -P "$workers" -I '{}' curl -s -o /dev/null -w '%{http_code}\n' -m 60 -X POST "$url" || true; } |
  awk '
    BEGIN { n["200"] = n["409"] = n["503"] = other = 0 }
    { if ($1 in n) n[$1]++; else other++ }
    END {
      print "accepted  " n["200"]
      print "sold out  " n["409"]
      print "busy      " n["503"]
      print "other     " other
    }'
