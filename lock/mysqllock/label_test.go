package mysqllock

import (
	"strings"
	"testing"
	"time"
)

func FuzzLabel(f *testing.F) {
	f.Add("k", "app-1/request-7")
	f.Add("*/ DROP TABLE locks; /* waits a 1 b */", "? % \x00 \xff é")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, name, who string) {
		l := label{name, who, time.UnixMilli(1_700_000_000_123)}
		text := l.String()
		inside := strings.TrimSuffix(strings.TrimPrefix(text, " /*"), "*/")
		if strings.ContainsAny(inside, "*?'\"\\") {
			t.Errorf("%q is no comment, or has parameters", text)
		}
		if got, ok := parseLabel("SELECT 1 FROM lock_rows WHERE name = '" + name + "' FOR UPDATE" + text); !ok || got != l {
			t.Errorf("%q is read as %+v, want %+v", text, got, l)
		}
	})
}
