#!/usr/bin/env python3
"""The four lines of lesson 3 as a lock, with their mistakes. It needs the standard library alone.

Mend it, and grade it: stock lab grade --only crash-between-commands,late-release,release-in-steps -- ./four_lines.py
"""
import os
import socket
import sys
import uuid

connection = None


def lock(key, token):
    if redis("SETNX", key, token) != "1":
        return False
    redis("PEXPIRE", key, os.environ["LEASE_MS"])
    return True


def unlock(key, token):
    redis("DEL", key)


def redis(*words):
    """Sends one command, and returns its reply: a text, or None. It connects again after a lost connection."""
    global connection
    try:
        if connection is None:
            connection = socket.create_connection((os.environ["REDIS_HOST"], os.environ["REDIS_PORT"])).makefile("rwb")
        bulk = "".join("$%d\r\n%s\r\n" % (len(word.encode()), word) for word in words)
        connection.write(("*%d\r\n%s" % (len(words), bulk)).encode())
        connection.flush()
        line = connection.readline().decode().rstrip("\r\n")
        if line[:1] == "$" and line != "$-1":  # a length; the text is the next line
            line = "$" + connection.readline().decode().rstrip("\r\n")
    except OSError:
        line = ""
    if not line:
        connection = None
        raise OSError("the connection is lost")
    if line[0] == "-":
        raise OSError(line[1:])
    return None if line == "$-1" else line[1:]


for request in sys.stdin:
    verb, key, argument = request.split()  # acquire KEY WAIT_MS, or release KEY TOKEN
    try:
        if verb == "acquire":
            token = uuid.uuid4().hex
            reply = "ok " + token if lock(key, token) else "busy"  # the grader asks again
        else:
            unlock(key, argument)
            reply = "ok"
    except OSError as e:
        reply = "error %s" % e
    print(reply, flush=True)
