-- Read the holder. It writes nothing.
-- KEYS[1] lock
-- Returns {holder's value or '', its remaining ms (-1: no limit)}.
return {redis.call('HKEYS', KEYS[1])[1] or '', redis.call('PTTL', KEYS[1])}
