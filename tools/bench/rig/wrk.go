package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Load is what one run of wrk saw: a closed loop, in which each connection sends its next request after the reply to
// the last one. Its latencies leave out what waits outside for a connection.
type Load struct {
	Requests int64   // that were answered
	Refused  int64   // of these: with a status that is not 2xx or 3xx
	Broken   int64   // without a reply: connect, read, write, timeout
	Seconds  float64 // as wrk measured them
	P50, P99 float64 // ms, of all that were answered
	Bytes    float64 // received
	CPU      float64 // µs that wrk itself took
}

// OK is the number of requests that were answered with 2xx.
func (l Load) OK() int64 { return l.Requests - l.Refused }

// FindWrk returns the path of wrk, or how to install it.
func FindWrk() (string, error) {
	path, err := exec.LookPath("wrk")
	if err != nil {
		return "", errors.New("wrk not found on PATH: apt-get install wrk (macOS: brew install wrk)")
	}
	return path, nil
}

// Posts makes wrk send POST. There is no function for replies: it would cost wrk a call into Lua for each, on the CPUs
// that are measured. Outcomes are counted by the instances.
const Posts = "wrk.method = \"POST\"\n"

// A Customer has a token.
type Customer struct{ Name, Token string }

// Carts makes wrk send orders of one unit of sku, each with an idempotency key of its own: the SKU, the thread and a
// count. Without customers, each is of a customer of that name; otherwise they are of these in turn.
func Carts(sku string, customers []Customer) string {
	var known strings.Builder
	for _, c := range customers {
		fmt.Fprintf(&known, "{%q, 'Authorization: Bearer %s\\r\\n'},\n", c.Name, c.Token)
	}
	return fmt.Sprintf(`local threads = 0
function setup(thread)
  threads = threads + 1
  thread:set("thread", threads)
end
local customers = {%[2]s}
local n = 0
local head = "POST /v1/orders HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\nIdempotency-Key: "
local tail = '","lines":[{"sku":"%[1]s","quantity":1}]}'
function request()
  n = n + 1
  local id = "%[1]s." .. thread .. "." .. n
  local customer, token = id, ""
  if #customers > 0 then
    local c = customers[n %% #customers + 1]
    customer, token = c[1], c[2]
  end
  local length = #'{"customer":"' + #customer + #tail
  return head .. id .. "\r\n" .. token .. "Content-Length: " .. length .. '\r\n\r\n{"customer":"' .. customer .. tail
end
`, sku, known.String())
}

// Wrk sends what script says to url for a number of whole seconds, over that many connections. folder is for the
// script.
func Wrk(ctx context.Context, folder, url, script string, connections, seconds int) (Load, error) {
	program, err := FindWrk()
	if err != nil {
		return Load{}, err
	}
	file := filepath.Join(folder, "wrk.lua")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		return Load{}, err
	}
	cmd := exec.CommandContext(ctx, program, "-t", strconv.Itoa(min(2, connections)), "-c", strconv.Itoa(connections),
		"-d", fmt.Sprintf("%ds", seconds), "--timeout", "10s", "--latency", "-s", file, url)
	// A group of its own: Ctrl-C reaches this process only, which then ends wrk by the ctx.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return Load{}, context.Cause(ctx)
		}
		return Load{}, fmt.Errorf("wrk: %w: %s%s", err, out.String(), said.String())
	}
	l, err := parseWrk(out.String())
	state := cmd.ProcessState
	l.CPU = float64((state.UserTime() + state.SystemTime()).Microseconds())
	return l, err
}

// parseWrk reads what wrk --latency prints.
func parseWrk(text string) (l Load, err error) {
	found := map[string]bool{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 2 && f[0] == "50%":
			l.P50, err = wrkTime(f[1])
			found[f[0]] = true
		case len(f) == 2 && f[0] == "99%":
			l.P99, err = wrkTime(f[1])
			found[f[0]] = true
		case len(f) == 6 && f[1] == "requests" && f[2] == "in":
			if l.Requests, err = strconv.ParseInt(f[0], 10, 64); err == nil {
				l.Seconds, err = wrkTime(strings.TrimSuffix(f[3], ","))
				l.Seconds /= 1000
			}
			if err == nil {
				l.Bytes, err = wrkBytes(f[4])
			}
			found["requests"] = true
		case strings.HasPrefix(line, "  Non-2xx or 3xx responses:"):
			l.Refused, err = strconv.ParseInt(f[len(f)-1], 10, 64)
		case strings.HasPrefix(line, "  Socket errors:"):
			for _, part := range strings.Split(strings.TrimPrefix(strings.TrimSpace(line), "Socket errors:"), ",") {
				_, number, _ := strings.Cut(strings.TrimSpace(part), " ")
				n, failed := strconv.ParseInt(number, 10, 64)
				l.Broken += n
				err = errors.Join(err, failed)
			}
		}
		if err != nil {
			return l, fmt.Errorf("read what wrk printed: %q: %w", strings.TrimSpace(line), err)
		}
	}
	if len(found) != 3 || l.Seconds <= 0 {
		return l, fmt.Errorf("wrk printed something else than its figures:\n%s", text)
	}
	return l, nil
}

// wrkTime reads 812.00us, 1.55ms, 2.00s, 1.50m as milliseconds.
func wrkTime(text string) (float64, error) {
	for _, unit := range []struct {
		name string
		ms   float64
	}{{"us", 1e-3}, {"ms", 1}, {"s", 1000}, {"m", 60_000}, {"h", 3_600_000}} {
		if number, ok := strings.CutSuffix(text, unit.name); ok {
			if f, err := strconv.ParseFloat(number, 64); err == nil {
				return f * unit.ms, nil
			}
		}
	}
	return 0, fmt.Errorf("%q is no time", text)
}

// wrkBytes reads 834.86KB: wrk counts in 1024.
func wrkBytes(text string) (float64, error) {
	number, factor := strings.TrimSuffix(text, "B"), 1.0
	for i, letter := range []string{"K", "M", "G", "T"} {
		if n, ok := strings.CutSuffix(number, letter); ok {
			number, factor = n, float64(int64(1)<<(10*(i+1)))
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	return f * factor, err
}
