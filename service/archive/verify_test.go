package archive_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/stock/service/archive"
	"example.com/stock/service/order"
)

// files returns the parts of an archive.
func (s *shop) files(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(s.dir, "*.gz"))
	if err != nil || len(names) == 0 {
		t.Fatal(err, names)
	}
	return names
}

// forge makes files anew, from the one with an index on, with their lines changed, so that all their sums are right.
func (s *shop) forge(t testing.TB, from int, change func(line string) []string) {
	t.Helper()
	previous := ""
	for i, name := range s.files(t) {
		var text bytes.Buffer
		counts := map[string]int{"movement": 0, "order": 0, "reservation": 0}
		for _, line := range unzip(t, name) {
			switch {
			case strings.HasPrefix(line, `{"archive"`):
				line = regexp.MustCompile(`"previous":"\w+"`).ReplaceAllString(line, `"previous":"`+previous+`"`)
			case strings.HasPrefix(line, `{"end"`):
				sum := sha256.Sum256(text.Bytes())
				previous = hex.EncodeToString(sum[:])
				end, _ := json.Marshal(map[string]any{"end": map[string]any{
					"movements": counts["movement"], "orders": counts["order"], "reservations": counts["reservation"],
					"sha256": previous,
				}})
				text.Write(append(end, '\n'))
				continue
			}
			changed := []string{line}
			if i >= from {
				changed = change(line)
			}
			for _, line := range changed {
				for kind := range counts {
					if strings.HasPrefix(line, `{"`+kind+`"`) {
						counts[kind]++
					}
				}
				text.WriteString(line + "\n")
			}
		}
		if i >= from {
			zip(t, name, text.Bytes())
		}
	}
}

func unzip(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	if _, err := all.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(all.String()), "\n")
}

func zip(t testing.TB, name string, text []byte) {
	t.Helper()
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), os.WriteFile(name, zipped.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// kinds verifies, and returns the kinds of problems.
func (s *shop) kinds(t testing.TB, store bool) (kinds []string) {
	t.Helper()
	var with archive.Store
	if store {
		with = s.Store
	}
	check, err := archive.Verify(t.Context(), with, []string{s.dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range check.Problems {
		kinds = append(kinds, p.Kind)
		if text, err := p.MarshalText(); err != nil || len(text) == 0 {
			t.Errorf("%+v: %q, %v", p, text, err)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// Every fault is found, by its kind, and an archive without one has none.
func TestVerifyFinds(t *testing.T) {
	t.Parallel()
	s := &shop{place: place{"mysql", servers.FilledMariaDB(t, migrate)}, dir: t.TempDir()}
	books, closed, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closed() })
	s.Store = books
	s.Service = order.New(order.Config{Store: books, Needs: always{}, Work: testWork})
	s.history(t, 12)
	s.relay(t)
	s.mustRun(t)
	if got := s.kinds(t, true); got != nil {
		t.Fatalf("nothing is wrong: %v", got)
	}
	whole := s.dir
	once := func(begins string, change func(string) []string) func(t *testing.T, s *shop) {
		return func(t *testing.T, s *shop) {
			done := false
			s.forge(t, 0, func(line string) []string {
				if done || !strings.HasPrefix(line, `{"`+begins+`"`) || strings.Contains(line, `"kind":"set"`) {
					return []string{line}
				}
				done = true
				return change(line)
			})
			if !done {
				t.Fatal("nothing was changed")
			}
		}
	}
	drop := func(string) []string { return nil }
	double := func(line string) []string { return []string{line, line} }
	swap := func(from, to string) func(string) []string {
		return func(line string) []string { return []string{strings.Replace(line, from, to, 1)} }
	}
	for name, row := range map[string]struct {
		do   func(t *testing.T, s *shop)
		want []string // without the store
		with []string // and with it, besides
	}{
		"torn": {func(t *testing.T, s *shop) {
			info, err := os.Stat(s.files(t)[0])
			if err == nil {
				err = os.Truncate(s.files(t)[0], info.Size()/2)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, []string{archive.Damaged, archive.Missing, archive.Sequence, archive.Sum}, nil},
		"a part is gone": {func(t *testing.T, s *shop) {
			if err := os.Remove(s.files(t)[1]); err != nil {
				t.Fatal(err)
			}
		}, []string{archive.Missing, archive.Sequence, archive.Sum}, nil},
		"the last part is gone": {func(t *testing.T, s *shop) {
			names := s.files(t)
			if err := os.Remove(names[len(names)-1]); err != nil {
				t.Fatal(err)
			}
		}, nil, []string{archive.Lost, archive.Stale}},
		"a movement is gone":  {once("movement", drop), []string{archive.Sequence, archive.Sum}, nil},
		"a movement is twice": {once("movement", double), []string{archive.Sequence, archive.Sum}, nil},
		"a movement is another": {
			once("movement", swap(`"available":-1`, `"available":-2`)), []string{archive.Sum}, nil,
		},
		"another carry":        {once("carry", swap(`"available":`, `"available":1`)), []string{archive.Sum}, nil},
		"no carry":             {once("carry", drop), []string{archive.Sequence, archive.Sum}, nil},
		"an order is gone":     {once("order", drop), nil, []string{archive.Lost, archive.Stale}},
		"an order is twice":    {once("order", double), []string{archive.Twice, archive.Units}, nil},
		"an order is another":  {once("order", swap(`"quantity":1`, `"quantity":2`)), []string{archive.Units}, nil},
		"a reservation, twice": {once("reservation", double), []string{archive.Twice}, nil},
		"a line nobody knows": {
			once("order", func(l string) []string { return []string{l, `{"x":1}`} }), []string{archive.Damaged}, nil,
		},
		"a later version": {
			once("archive", swap(`"version":1`, `"version":2`)), []string{archive.Damaged, archive.Missing}, nil,
		},
		"another chain": {func(t *testing.T, s *shop) {
			s.forge(t, 3, func(line string) []string {
				return []string{regexp.MustCompile(`"previous":"\w`).ReplaceAllString(line, `"previous":"x`)}
			})
		}, []string{archive.Broken}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shop{Store: s.Store, dir: t.TempDir()}
			if err := os.CopyFS(s.dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			row.do(t, s)
			got := s.kinds(t, false)
			for _, kind := range row.want {
				if !slices.Contains(got, kind) {
					t.Errorf("%v, want %v", got, row.want)
				}
			}
			if row.want == nil && got != nil {
				t.Errorf("%v, want none", got)
			}
			if got = s.kinds(t, true); row.with != nil && !slices.Equal(got, row.with) {
				t.Errorf("with the store: %v, want %v", got, row.with)
			} else if got == nil {
				t.Error("with the store: nothing is wrong")
			}
		})
	}
}

// Parts that were joined are an archive, too. What is no archive is an error, and not an empty one.
func TestVerifyReads(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		made := s.history(t, 8)
		s.relay(t)
		s.mustRun(t)
		var all []byte
		for _, name := range s.files(t) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
		one := filepath.Join(t.TempDir(), "all")
		if err := os.WriteFile(one, all, 0o600); err != nil {
			t.Fatal(err)
		}
		s.whole(t, len(made), one)
		s.whole(t, len(made), s.dir, one)
		for _, path := range []string{t.TempDir(), filepath.Join(s.dir, "none")} {
			if _, err := archive.Verify(t.Context(), nil, []string{path}); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", path, err)
			}
		}
		// What is in the store again is found, and so is a ledger that goes on from elsewhere.
		var back order.Order
		err := archive.Read(one, func(c archive.Contents) error {
			if len(c.Orders) > 0 {
				back = c.Orders[0]
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		s.stock(t, "c", 10)
		about := order.About{SKUs: lineSKUs(back)}
		_, _, err = s.Store.(order.Ledger).Step(t.Context(), about, func(order.State) (order.Changes, error) {
			return order.Changes{Order: &back}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.kinds(t, true); !slices.Equal(got, []string{archive.Remains}) {
			t.Errorf("%v", got)
		}
	})
}
