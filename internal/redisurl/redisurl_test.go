package redisurl_test

import (
	"fmt"
	"strings"
	"testing"

	"example.com/stock/internal/redisurl"
)

func TestParse(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://h":                               "[h:6379] 0 master= cluster=false : tls=false",
		"redis://u:p%40w@h:1/3":                   "[h:1] 3 master= cluster=false u:p@w tls=false",
		"rediss://:p@[::1]:7?db=2":                "[[::1]:7] 2 master= cluster=false :p tls=true",
		"redis://u:p@a:1?addr=b:2&addr=a:1":       "[a:1 b:2] 0 master= cluster=true u:p tls=false",
		"rediss://a:1?addr=a:1":                   "[a:1] 0 master= cluster=true : tls=true",
		"redis://a:1/2?master_name=m&addr=b:2":    "[a:1 b:2] 2 master=m cluster=false : tls=false",
		"rediss://a:1?master_name=m&password=p":   "[a:1] 0 master=m cluster=false :p tls=true",
		"redis://:s@a:1?master_name=m&username=u": "[a:1] 0 master=m cluster=false u: tls=false",
	} {
		o, err := redisurl.Parse(raw)
		got := fmt.Sprintf("%v %d master=%s cluster=%t %s:%s tls=%t",
			o.Addrs, o.DB, o.MasterName, o.IsClusterMode, o.Username, o.Password, o.TLSConfig != nil)
		if err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", raw, got, err, want)
		}
	}
	o, err := redisurl.Parse("redis://:s@a:1?master_name=m&pool_size=7")
	if err != nil || o.SentinelPassword != "s" || o.PoolSize != 7 {
		t.Errorf("%+v %v", o, err)
	}
}

// What is no URL of a Redis is refused, also where go-redis would take it for the Redis on this computer, and the error
// does not quote it.
func TestRefused(t *testing.T) {
	for _, raw := range []string{
		"", "redis:6379", "redis://", "s3cret", "h:6379", "http://:s3cret@h", "unix:///tmp/s3cret",
		"redis://:s3cret@h:port",
		"redis://:s3cret@h/one", "redis://h?addr=:s3cret@i:1", "redis://h?pool_size=many", "redis://h?pool_size=-1",
		"redis://:s3cret@h?skip_verify=true", "redis://h?max_retries=3", "redis://:s3c#ret@h", "redis://:s3cret@h:%zz",
		"redis://h?master_name=",
	} {
		o, err := redisurl.Parse(raw)
		if err == nil || strings.Contains(err.Error(), "s3c") {
			t.Errorf("%s: %+v %v", raw, o, err)
		}
	}
}
