package panels

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Prometheus asks the HTTP API of a Prometheus.
type Prometheus struct{ URL string }

// Query evaluates PromQL at a time, or now if at is zero.
func (p Prometheus) Query(ctx context.Context, promQL string, at time.Time) ([]Sample, error) {
	values := url.Values{"query": {promQL}}
	if !at.IsZero() {
		values.Set("time", strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64))
	}
	var data struct {
		ResultType string
		Result     []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	if err := p.ask(ctx, "/api/v1/query?"+values.Encode(), &data); err != nil {
		return nil, err
	}
	if data.ResultType != "vector" {
		return nil, fmt.Errorf("query: the result is a %q, not a vector", data.ResultType)
	}
	var samples []Sample
	for _, r := range data.Result {
		text, _ := r.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("query: %w", err)
		}
		samples = append(samples, Sample{r.Metric, value})
	}
	return samples, nil
}

// An Alert is one that fires, or whose condition has not lasted long enough yet (State "pending").
type Alert struct {
	Labels, Annotations map[string]string
	State               string
	ActiveAt            time.Time
}

// Alerts returns the alerts of all rules of this Prometheus whose condition is true.
func (p Prometheus) Alerts(ctx context.Context) ([]Alert, error) {
	var data struct{ Alerts []Alert }
	err := p.ask(ctx, "/api/v1/alerts", &data)
	return data.Alerts, err
}

func (p Prometheus) ask(ctx context.Context, path string, data any) error {
	body, err := get(ctx, strings.TrimSuffix(p.URL, "/")+path)
	if err != nil {
		return err
	}
	defer body.Close()
	var reply struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(io.LimitReader(body, 32<<20)).Decode(&reply); err != nil {
		return fmt.Errorf("%s is no Prometheus: %w", p.URL, err)
	}
	if reply.Status != "success" {
		return errors.New(reply.Error)
	}
	return json.Unmarshal(reply.Data, data)
}
