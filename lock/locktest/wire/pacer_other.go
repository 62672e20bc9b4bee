//go:build !linux

package wire

import "time"

func sharpTimers() {}

func sleepUntil(due time.Time) { time.Sleep(time.Until(due)) }
