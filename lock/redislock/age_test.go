package redislock

import (
	"strconv"
	"testing"
	"time"
)

// No server counts as older than it must be by what it tells. With its clock, everybody means the same moment.
func TestAge(t *testing.T) {
	for _, row := range []struct {
		uptime, clock string // as INFO tells them
		want          time.Duration
	}{
		{"7", "", 6 * time.Second},
		{"7", "none", 6 * time.Second},
		{"7", "1795295012764162", 6764162 * time.Microsecond},
		{"0", "1795295012000000", -time.Second}, // started at the end of this second
	} {
		info := map[string]string{"uptime_in_seconds": row.uptime}
		if row.clock != "" {
			info["server_time_usec"] = row.clock
		}
		if up, known := age(info); up != row.want || !known {
			t.Errorf("%v: %v, %t, want %v", info, up, known, row.want)
		}
	}
	if _, known := age(map[string]string{"server_time_usec": "1795295012764162"}); known {
		t.Error("without an uptime there is no age")
	}
	// A server that started somewhere in second 99 of its clock: its age counts from the end of that second,
	// whenever it is asked.
	for clock := 100 * time.Second; clock < 103*time.Second; clock += 130 * time.Millisecond {
		up, _ := age(map[string]string{
			"uptime_in_seconds": strconv.Itoa(int(clock/time.Second) - 99),
			"server_time_usec":  strconv.FormatInt(clock.Microseconds(), 10),
		})
		if up != clock-100*time.Second {
			t.Errorf("at %v it is %v old", clock, up)
		}
	}
}
