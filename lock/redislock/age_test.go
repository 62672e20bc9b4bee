package redislock

import (
	"strconv"
	"testing"
	"time"
)

// Nothing is older than it must be by what the server tells, and with its clock everybody means the same moment.
func TestAge(t *testing.T) {
	for _, row := range []struct {
		told map[string]string
		want time.Duration
	}{
		{map[string]string{"uptime_in_seconds": "7"}, 6 * time.Second},
		{map[string]string{"uptime_in_seconds": "7", "server_time_usec": "none"}, 6 * time.Second},
		{map[string]string{"uptime_in_seconds": "7", "server_time_usec": "1795295012764162"}, 6764162 * time.Microsecond},
		{map[string]string{"uptime_in_seconds": "0", "server_time_usec": "1795295012000000"}, -time.Second}, // started at the end of this second
	} {
		if up, known := age(row.told); up != row.want || !known {
			t.Errorf("%v: %v, %t, want %v", row.told, up, known, row.want)
		}
	}
	if _, known := age(map[string]string{"server_time_usec": "1795295012764162"}); known {
		t.Error("without an uptime there is no age")
	}
	// A server that started somewhere in second 99 of its clock: who asks at whatever time counts from the end of that second.
	for clock := 100 * time.Second; clock < 103*time.Second; clock += 130 * time.Millisecond {
		up, _ := age(map[string]string{
			"uptime_in_seconds": strconv.Itoa(int(clock/time.Second) - 99), "server_time_usec": strconv.FormatInt(clock.Microseconds(), 10),
		})
		if up != clock-100*time.Second {
			t.Errorf("at %v it is %v old", clock, up)
		}
	}
}
