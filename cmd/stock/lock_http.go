package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// seenContender is one of a lock's contenders, as an instance tells.
type seenContender struct {
	Who         string     `json:"who"`
	Since       *time.Time `json:"since"`
	RemainingMS float64    `json:"remaining_ms"`
	Fence       uint64     `json:"fence"`
}

// askLock asks an instance, at its address for operators, about a lock, by GET, or to evict from it, by DELETE, and
// decodes the reply into a *T.
func askLock[T any](ctx context.Context, method, base, strategy, key, token string) (reply T, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*askLimit)
	defer cancel()
	target := strings.TrimSuffix(base, "/") + "/v1/locks/" + url.PathEscape(strategy) + "/" + url.PathEscape(key)
	req, err := http.NewRequestWithContext(ctx, method, target, http.NoBody)
	if err != nil {
		return reply, fmt.Errorf("--url: %w", err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if err != nil {
		return reply, err
	}
	if resp.StatusCode != http.StatusOK {
		var problem struct{ Type, Detail string }
		if json.Unmarshal(body, &problem) != nil || problem.Detail == "" {
			problem.Detail = "is that a stock instance?"
		}
		if problem.Type == "/problems/not_found" {
			problem.Detail = "is that its address for operators (--admin-addr)?"
		}
		return reply, fmt.Errorf("%s %s: %s: %s", method, target, resp.Status, problem.Detail)
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		return reply, fmt.Errorf("%s %s: %w", method, target, err)
	}
	return reply, nil
}
