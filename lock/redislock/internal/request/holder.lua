-- Read the holder of a lock that has one key and no fence.
-- Returns {holder's value or '', its remaining ms (-1: no limit)}.
return {redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1])}
