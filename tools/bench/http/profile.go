package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"example.com/stock/app"
	"example.com/stock/tools/bench/rig"
)

// A share is how much CPU time the parts of one row take, in µs for each sale or reply.
type share struct {
	Row     string             `json:"row"`
	Callers int                `json:"callers"`
	Parts   map[string]float64 `json:"parts_us"`
	Samples int                `json:"samples"` // of the profile: 10 ms each
}

// The parts of an instance, in the order of the table. A sample belongs to the first of its functions, from the one
// that ran outwards, whose name begins like one of the part: so a system call belongs to who has called it, and so does
// memory. What no function of these has called is Go's runtime: scheduling, waiting for sockets, collecting garbage.
const (
	partHTTP    = "net/http"
	partHandler = "handler"
	partLog     = "log and metrics"
	partService = "selling"
	partStore   = "statements"
	partDriver  = "driver"
	partTraces  = "traces"
	partGC      = "garbage"
	partRuntime = "runtime"
)

func partNames() []string {
	return []string{
		partHTTP, partHandler, partLog, partService, partStore, partDriver, partTraces, partGC, partRuntime,
		rig.PartNginx, "redis", "mysql",
	}
}

// partOf returns the part of a function, or "" if it is for who calls it.
func partOf(function string) string {
	for _, p := range []struct {
		part   string
		begins []string
	}{
		{partTraces, []string{
			"example.com/stock/app/traces.", "go.opentelemetry.io/", "github.com/XSAM/",
			"net/http.(*Request).WithContext", // nothing else in a sale gives a request another ctx
		}},
		{partHTTP, []string{"net/http.", "net/textproto."}},
		{partLog, []string{"log/slog.", "github.com/prometheus/", "example.com/stock/app"}},
		{partHandler, []string{"github.com/gin-gonic/", "example.com/stock/handler", "main."}},
		{partService, []string{
			"example.com/stock/service", "example.com/stock/lock", "example.com/stock/internal/batching.",
		}},
		{partStore, []string{"example.com/stock/repo", "example.com/stock/internal/redisscript."}},
		{partDriver, []string{"github.com/redis/", "github.com/go-sql-driver/", "database/sql.", "gorm.io/"}},
		{partGC, []string{"runtime.gcBgMarkWorker", "runtime.bgsweep", "runtime.bgscavenge"}},
	} {
		if slices.ContainsFunc(p.begins, func(name string) bool { return strings.HasPrefix(function, name) }) {
			return p.part
		}
	}
	return ""
}

// split adds up the samples of profiles by part. traces is what go tool pprof -traces prints: stacks between lines of
// dashes, each with its CPU time before the function that ran.
func split(traces io.Reader) (byPart map[string]time.Duration, err error) {
	byPart = make(map[string]time.Duration)
	var took time.Duration
	part, inside := "", false
	end := func() {
		if took > 0 && part == "" {
			part = partRuntime
		}
		if took > 0 {
			byPart[part] += took
		}
		took, part = 0, ""
	}
	lines := bufio.NewScanner(traces)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "-----") {
			end()
			inside = true
			continue
		}
		words := strings.Fields(line)
		if !inside || len(words) == 0 {
			continue
		}
		if d, err := time.ParseDuration(words[0]); err == nil && took == 0 {
			took, words = d, words[1:]
		}
		if part == "" && len(words) > 0 {
			part = partOf(words[0])
		}
	}
	end()
	return byPart, lines.Err()
}

// profilesIn names the folder of the sockets on which instances that are profiled can be asked.
const profilesIn = "BENCH_PROFILES"

// serveProfiled is "stock serve" from within this program, with a profiler on a socket. The service itself has none:
// what it shows would be for anybody who can reach it.
func serveProfiled(log io.Writer) error {
	debug.SetGCPercent(400) // as stock serve does
	ctx, done := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer done()
	flags := pflag.NewFlagSet("stock", pflag.ContinueOnError)
	app.AddFlags(flags)
	cfg, err := app.Load(flags)
	if err != nil {
		return err
	}
	lines := app.NewLogWriter(log)
	defer lines.Close()
	logger := app.NewLogger(lines, cfg)
	app.LogRedis(logger)
	a, err := app.New(cfg, "profiled", logger)
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// offerProfiles serves CPU profiles on a socket, for as long as the process lives.
func offerProfiles(folder, instance string) error {
	l, err := net.Listen("unix", filepath.Join(folder, instance+".sock"))
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, http.HandlerFunc(pprof.Profile)) }()
	return nil
}

// profiledRows are those whose CPU time is told apart.
func profiledRows() []string {
	return []string{"merged/mysql", traced, "atomic/mysql", orders, "merged/redis", "atomic/redis", ping}
}

// profileFor is how long each row is profiled at least, in seconds: 100 samples come from each second of CPU time. So a
// part of 3 % has some 50 samples, and is known to a seventh.
const profileFor = 15

// profile runs the rows again, each once, on servers of their own whose instances are profiled.
func (c *contest) profile(ctx context.Context) (list []share, err error) {
	folder, err := os.MkdirTemp("", "bench-profiles-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	rig.Progress("profiling: starting servers and instances")
	p := *c
	p.main, p.ping, p.traced, p.settings.seconds = nil, nil, nil, max(c.settings.seconds, profileFor)
	defer func() {
		if err = errors.Join(err, p.main.Close(), p.ping.Close(), p.traced.close()); err != nil {
			list = nil
		}
	}()
	sockets := make(map[string]string) // by row
	for _, row := range profiledRows() {
		sockets[row] = folder
	}
	for row, name := range map[string]string{ping: "ping", traced: "traced"} {
		sockets[row] = filepath.Join(folder, name)
		if err := os.Mkdir(sockets[row], 0o700); err != nil {
			return nil, err
		}
	}
	env := []string{profilesIn + "=" + folder, storeOfOrders}
	var failed [3]error
	var all sync.WaitGroup
	all.Go(func() {
		p.main, failed[0] = rig.Open(ctx, rig.Options{
			Name: "main", Binary: self, Instances: c.settings.instances, Want: wanted(profiledRows()), Env: env,
			Tell: rig.Progress,
		})
	})
	all.Go(func() {
		p.ping, failed[1] = rig.Open(ctx, rig.Options{
			Name: ping, Binary: self, Instances: c.settings.instances, Foreign: true, Tell: rig.Progress,
			Env: []string{profilesIn + "=" + sockets[ping]},
		})
	})
	all.Go(func() { p.traced, failed[2] = openTraced(ctx, self, c.settings, false, profilesIn+"="+sockets[traced]) })
	all.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		return nil, err
	}
	for _, r := range rows() {
		if !slices.Contains(profiledRows(), r.name) {
			continue
		}
		j := job{r.name, sold, many, false, r}
		s, err := p.profileOf(ctx, j, sockets[r.name])
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", j, errors.Join(err, p.main.Alive(), p.ping.Alive()))
		}
		rig.Progress("  %-30s %d samples, µs each: %s", j, s.Samples, told(s.Parts))
		list = append(list, s)
	}
	return list, nil
}

func told(us map[string]float64) string {
	var list []string
	for _, part := range partNames() {
		if us[part] >= 1 {
			list = append(list, fmt.Sprintf("%s %.0f", part, us[part]))
		}
	}
	return strings.Join(list, ", ")
}

// profileOf measures a row once, takes profiles of its instances meanwhile, and divides what /proc says of their CPU
// time as the samples are divided.
func (c *contest) profileOf(ctx context.Context, j job, sockets string) (s share, err error) {
	if err := c.warm(ctx, j, "profile-warm-up"); err != nil {
		return s, err
	}
	found, err := filepath.Glob(filepath.Join(sockets, "*.sock"))
	if err != nil || len(found) != c.settings.instances {
		return s, fmt.Errorf("%d of %d instances offer a profile", len(found), c.settings.instances)
	}
	files, failed := make([]string, len(found)), make([]error, len(found))
	var all sync.WaitGroup
	for i, socket := range found {
		files[i] = socket + ".pprof"
		all.Go(func() { failed[i] = fetch(ctx, socket, files[i], c.settings.seconds) })
	}
	o, err := c.wrk(ctx, j, "profile")
	all.Wait()
	if err := errors.Join(append(failed, err)...); err != nil {
		return s, err
	}
	traces, err := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof", "-traces"}, files...)...).Output()
	if err != nil {
		return s, fmt.Errorf("go tool pprof: %w", err)
	}
	byPart, err := split(bytes.NewReader(traces))
	if err != nil {
		return s, err
	}
	var sum time.Duration
	for _, d := range byPart {
		sum += d
	}
	if sum == 0 {
		return s, errors.New("the profile is empty")
	}
	s = share{Row: j.Row, Callers: j.Callers, Samples: int(sum / (10 * time.Millisecond)), Parts: map[string]float64{}}
	for part, d := range byPart {
		s.Parts[part] = round3(o.CPU[rig.PartService] * float64(d) / float64(sum))
	}
	for _, part := range []string{rig.PartNginx, "redis", "mysql"} {
		s.Parts[part] = o.CPU[part]
	}
	return s, nil
}

// fetch takes a profile of one instance, for that many seconds.
func fetch(ctx context.Context, socket, file string, seconds int) error {
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true,
	}}
	url := fmt.Sprintf("http://instance/?seconds=%d", seconds)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s", res.Status)
	}
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}
