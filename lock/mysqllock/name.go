package mysqllock

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	columnBytes = 255 // of the name columns, which are binary: no case, no trailing blanks, no character set
	digested    = "sha256:"
	nameChars   = 64 // of a named lock
)

// columnName is key as the tables have it: as it is, for people to read, or its digest if it is too long. No two keys share a
// name: a key that looks like a digest is digested as well.
func columnName(key string) string {
	if len(key) <= columnBytes && !strings.HasPrefix(key, digested) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return digested + hex.EncodeToString(sum[:])
}

// userLockName is key as the name of a named lock. Those belong to the whole server, so the database is in it. The server takes
// names that differ by case, and perhaps by accents or blanks at the end, for the same one: only keys that this cannot happen
// to stay readable, the others become a digest, of 232 bits because 64 characters is the limit.
func userLockName(database, key string) string {
	if name := "stock/" + database + "/" + key; len(name) <= nameChars && plain(database) && plain(key) {
		return name
	}
	sum := sha256.Sum256([]byte(database + "\x00" + key))
	return ("stock#" + hex.EncodeToString(sum[:]))[:nameChars]
}

func plain(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.' {
			return false
		}
	}
	return s != ""
}
