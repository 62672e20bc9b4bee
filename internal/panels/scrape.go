package panels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Job is the label job of the series of instances, as Prometheus' configuration in deploy/prometheus sets it. A
// PodMonitor puts "namespace/" in front of it.
const Job = "stock"

// A Scrape is what an instance exposed at one time.
type Scrape struct {
	At     time.Time
	series map[string][]series // by metric
	values map[string]float64  // by metric and labels
}

type series struct {
	labels map[string]string
	key    string
	value  float64
}

// A Pair is the last scrape of an instance, and an earlier one. Growth is that between them.
type Pair struct {
	Instance    string // address
	Before, Now Scrape
	Err         error // why the last scrape failed; then Now has only the series up
}

// ReadScrape reads the text that an instance exposes.
func ReadScrape(r io.Reader, instance string, at time.Time) (Scrape, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return Scrape{}, err
	}
	s := Scrape{At: at, series: make(map[string][]series), values: make(map[string]float64)}
	s.add("up", instance, nil, 1)
	for name, family := range families {
		for _, m := range family.GetMetric() {
			if h := m.GetHistogram(); h != nil {
				s.histogram(name, instance, m.GetLabel(), h)
				continue
			}
			// It is one of them.
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
			s.add(name, instance, m.GetLabel(), value)
		}
	}
	return s, nil
}

func (s *Scrape) histogram(name, instance string, labels []*dto.LabelPair, h *dto.Histogram) {
	s.add(name+"_count", instance, labels, float64(h.GetSampleCount()))
	s.add(name+"_sum", instance, labels, h.GetSampleSum())
	for _, b := range h.GetBucket() {
		le := strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64)
		bucket := append(slices.Clone(labels), &dto.LabelPair{Name: new("le"), Value: &le})
		s.add(name+"_bucket", instance, bucket, float64(b.GetCumulativeCount()))
	}
}

func (s *Scrape) add(metric, instance string, pairs []*dto.LabelPair, value float64) {
	labels := make(map[string]string)
	for _, p := range pairs {
		labels[p.GetName()] = p.GetValue()
	}
	labels["instance"], labels["job"] = instance, Job
	one := series{labels, key(labels), value}
	s.series[metric] = append(s.series[metric], one)
	s.values[metric+one.key] = value
}

// Instances scrapes instances, and remembers the scrapes of the last Window. It is not safe for concurrent use.
type Instances struct {
	// Addrs are the operators' addresses of the instances, HOST:PORT. A host with several addresses, such as the name
	// of a service of Compose, means an instance at each of them.
	Addrs []string

	// Window is the time over which growth is measured; default 15 s. It is shorter after the first scrape.
	Window time.Duration

	past map[string][]Scrape
}

// limit is the time that an instance or a Prometheus has to answer.
const limit = 2 * time.Second

// Scrape scrapes all instances at once, and returns what they exposed in the order of Addrs.
func (i *Instances) Scrape(ctx context.Context) []Pair {
	if i.past == nil {
		i.past = make(map[string][]Scrape)
	}
	pairs := i.resolve(ctx)
	var all sync.WaitGroup
	for n := range pairs {
		all.Go(func() {
			pair := &pairs[n]
			if pair.Err == nil {
				pair.Now, pair.Err = scrape(ctx, pair.Instance)
			}
			if pair.Err != nil {
				pair.Now = Scrape{At: time.Now(), series: make(map[string][]series), values: make(map[string]float64)}
				pair.Now.add("up", pair.Instance, nil, 0)
			}
		})
	}
	all.Wait()
	window := i.Window
	if window == 0 {
		window = 15 * time.Second
	}
	for n := range pairs {
		pair := &pairs[n]
		past := i.past[pair.Instance]
		// The first of them is the youngest that is as old as the window.
		for len(past) > 1 && pair.Now.At.Sub(past[1].At) >= window {
			past = past[1:]
		}
		if len(past) > 0 {
			pair.Before = past[0]
		}
		if pair.Err == nil {
			past = append(past, pair.Now)
		}
		i.past[pair.Instance] = past
	}
	return pairs
}

// resolve returns a pair for each address of each host.
func (i *Instances) resolve(ctx context.Context) (pairs []Pair) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, addr := range i.Addrs {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			pairs = append(pairs, Pair{Instance: addr, Err: err})
			continue
		}
		// localhost has an address of each kind, and is one instance.
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", host)
		if err != nil {
			found, err = net.DefaultResolver.LookupNetIP(ctx, "ip6", host)
		}
		if err != nil {
			pairs = append(pairs, Pair{Instance: addr, Err: err})
			continue
		}
		slices.SortFunc(found, netip.Addr.Compare)
		for _, ip := range found {
			pairs = append(pairs, Pair{Instance: net.JoinHostPort(ip.Unmap().String(), port)})
		}
	}
	return pairs
}

func scrape(ctx context.Context, addr string) (Scrape, error) {
	body, err := get(ctx, "http://"+addr+"/metrics")
	if err != nil {
		return Scrape{}, err
	}
	defer body.Close()
	return ReadScrape(io.LimitReader(body, 32<<20), addr, time.Now())
}

// get returns the body of a reply of status 200. Closing it ends the request.
func get(ctx context.Context, target string) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		cancel()
		return nil, err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		cancel()
		return nil, reason(err)
	}
	if reply.StatusCode != http.StatusOK {
		reply.Body.Close()
		cancel()
		return nil, fmt.Errorf("GET %s: %s", request.URL.Path, reply.Status)
	}
	return ended{reply.Body, cancel}, nil
}

// reason returns an error of a request without the address, which the page shows already.
func reason(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	var network *net.OpError
	if errors.As(err, &network) {
		err = network.Err
	}
	return err
}

type ended struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (e ended) Close() error {
	defer e.cancel()
	return e.ReadCloser.Close()
}
