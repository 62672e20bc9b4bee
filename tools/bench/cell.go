package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// Bounds of a measurement, besides its duration.
const (
	warm  = 300 * time.Millisecond
	grace = 15 * time.Second
)

// run measures one entrant once.
func (c *contest) run(ctx context.Context, j job) (o outcome, err error) {
	c.cells++
	duration := c.settings.duration / time.Duration(j.slices)
	t := task{
		Entrant: j.entrant.base(), Cell: "b" + strconv.Itoa(c.cells),
		Keys: j.Keys, Contenders: j.Contenders, Idle: j.Idle,
		Redis: c.addr(server.Redis, j.Delayed), ZooKeeper: c.addr(server.ZooKeeper, j.Delayed),
		MySQL:  c.addr(server.MySQL, false),
		WarmMS: warm.Milliseconds(), RunMS: duration.Milliseconds(), GraceMS: grace.Milliseconds(),
	}
	if err := c.stock(ctx, j, t); err != nil {
		return o, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*grace+duration)
	defer cancel()
	workers := make([]*workerProcess, j.Procs)
	defer func() {
		for _, w := range workers {
			if w != nil {
				w.end()
			}
		}
	}()
	for i := range workers {
		t.Number = i
		if workers[i], err = c.launch(ctx, j, t); err != nil {
			return o, err
		}
	}
	for _, w := range workers {
		if err := w.ready(); err != nil {
			return o, err
		}
	}
	before := c.meter(ctx)
	for _, w := range workers {
		w.start()
	}
	var reports []report
	for _, w := range workers {
		r, err := w.report()
		if err != nil {
			return o, err
		}
		reports = append(reports, r)
	}
	spent := c.meter(ctx).since(before)
	for _, w := range workers {
		w.end()
		spent.cpu["clients"] += w.used()
	}
	if o, err = judge(reports, duration); err != nil {
		return o, err
	}
	o.use(spent)
	if j.Idle {
		return o, nil
	}
	counted, err := c.counted(ctx, j, t)
	o.Lost = o.turns() - counted
	return o, err
}

// stock prepares the SKUs that the entrants on MariaDB sell.
func (c *contest) stock(ctx context.Context, j job, t task) error {
	if j.entrant.server != server.MySQL {
		return nil
	}
	store := stock.NewMySQL(repo.NewMySQL(c.db))
	keys := []string{t.warmKey()}
	for i := range t.Keys {
		keys = append(keys, t.key(i))
	}
	for _, key := range keys {
		if _, err := store.Set(ctx, service.SKU(key), service.MaxStock, service.Condition{}); err != nil {
			return fmt.Errorf("stock %s: %w", key, err)
		}
	}
	return nil
}

// counted returns the number of turns that the counters have seen.
func (c *contest) counted(ctx context.Context, j job, t task) (sum int64, err error) {
	for i := range t.Keys {
		if j.entrant.server == server.MySQL {
			stock, err := stock.NewMySQL(repo.NewMySQL(c.db)).Read(ctx, service.SKU(t.key(i)))
			if err != nil {
				return 0, fmt.Errorf("read what was sold: %w", err)
			}
			sum += stock.Sold
			continue
		}
		n, err := c.redis.Get(ctx, counterOf(t.key(i))).Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			return 0, fmt.Errorf("read the counter: %w", err)
		}
		sum += n
	}
	return sum, nil
}

func (c *contest) launch(ctx context.Context, j job, t task) (*workerProcess, error) {
	if c.settings.profiles != "" && t.Number == 0 {
		t.Profile = filepath.Join(c.settings.profiles, j.profile())
	}
	program := j.entrant.program
	if program == "" {
		var err error
		if program, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
	}
	text, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("write the task: %w", err)
	}
	w, err := startWorker(exec.CommandContext(ctx, program, workerRole, string(text)))
	if err != nil {
		return nil, fmt.Errorf("start a worker for %s: %w", strings.ToLower(j.entrant.name), err)
	}
	return w, nil
}
