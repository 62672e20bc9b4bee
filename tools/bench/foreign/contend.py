"""A worker with a Python lock: contend.py way redis zookeeper cell keys contenders warm_ms run_ms. It speaks as worker.go does."""

import json
import os
import random
import sys
import threading
import time

import redis

way, address, zookeeper, cell, keys, contenders, warm, run = sys.argv[1:]
host, port = address.rsplit(":", 1)
server = redis.Redis(host=host, port=int(port))
version = redis.__version__

if way == "kazoo":
    import kazoo.version
    from kazoo.client import KazooClient

    version = kazoo.version.__version__
    client = KazooClient(hosts=zookeeper)
    client.start()

    def lock_of(key):
        return client.Lock("/bench/" + key)
else:

    def lock_of(key):
        return server.lock(key, timeout=30, sleep=0.001)


def contend(keys, seconds):
    deadline = time.monotonic() + seconds
    tallies = []

    def contender():
        tally = {"done": 0, "late": 0, "failed": 0, "error": "", "micros": []}
        tallies.append(tally)
        while time.monotonic() < deadline:
            key = f"{cell}-{random.randrange(keys)}" if keys else f"{cell}-warm"
            began = time.monotonic()
            while True:
                worked = False
                try:
                    with lock_of(key):
                        n = server.get("count:" + key)
                        server.set("count:" + key, int(n or 0) + 1)
                        worked = True
                except Exception as e:
                    tally["failed"] += 1
                    tally["error"] = repr(e)
                if worked or tally["failed"] > 1000:
                    break
            ended = time.monotonic()
            tally["micros"].append(int((ended - began) * 1e6))
            if worked:
                tally["done" if ended < deadline else "late"] += 1

    threads = [threading.Thread(target=contender) for _ in range(int(contenders))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "done": [t["done"] for t in tallies],
        "late": sum(t["late"] for t in tallies),
        "failed": sum(t["failed"] for t in tallies),
        "error": next((t["error"] for t in tallies if t["error"]), ""),
        "micros": [us for t in tallies for us in t["micros"]],
        "version": version,
    }


def end_with_parent():
    while os.read(0, 1):
        pass
    os._exit(1)


contend(0, int(warm) / 1000)
print("ready", flush=True)
if os.read(0, 1):
    threading.Thread(target=end_with_parent, daemon=True).start()
    print(json.dumps(contend(int(keys), int(run) / 1000)), flush=True)
os._exit(0)
