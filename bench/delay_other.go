//go:build !linux

package main

import "time"

func sharpTimers() {}

func sleepUntil(due time.Time) { time.Sleep(time.Until(due)) }
