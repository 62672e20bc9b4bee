"""Lets "stock lab grade" grade the lock of kazoo.

bin/stock lab grade --servers zookeeper -- python3 tools/peers/kazoo_lock.py
"""
import logging
import os
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

logging.basicConfig(level=logging.CRITICAL)
client = KazooClient(os.environ["ZOOKEEPER_ADDR"], timeout=int(os.environ["LEASE_MS"]) / 1000)
client.start()
held = {}

for request in sys.stdin:
    verb, key, argument = request.split()
    try:
        if verb == "acquire":
            lock = client.Lock("/" + key)
            try:
                reply = "busy"
                if lock.acquire(timeout=int(argument) / 1000):
                    held[lock.node] = lock
                    reply = "ok " + lock.node
            except LockTimeout:
                pass
        else:
            held.pop(argument).release()
            reply = "ok"
    except Exception as e:  # whatever kazoo raises
        reply = "error " + repr(e)
    print(reply, flush=True)
