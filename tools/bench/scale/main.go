// Command scale says what more instances, and more computers, would sell: a model of measured costs, a simulation of it
// that is held against what 1 to 5 instances sell here, and the tables and the picture of docs/scale.md.
//
//	go run ./scale                     # the tables, from the constants that are kept in docs/scale.json
//	go run ./scale -write              # the same into docs/scale.md, docs/scale.zh-CN.md and their pictures
//	go run ./scale -measure -write     # first measure the constants anew: about 5 minutes
//	go run ./scale -memory -write      # first measure only the memory anew: about 2 minutes
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"example.com/stock/tools/bench/rig"
)

func main() {
	ctx, done := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer done()
	if err := scale(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func scale(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	anew := f.Bool("measure", false, "measure the constants, and keep them in docs/scale.json")
	memory := f.Bool("memory", false, "measure the memory of waiters, batches, leases and SKUs, and keep it there, too")
	seconds := f.Int("seconds", 2, "with -measure: how long each run lasts, in whole seconds")
	rounds := f.Int("rounds", 3, "with -measure: how many runs; the one with the median rate counts")
	write := f.Bool("write", false, "write the tables and pictures of docs/scale.md and docs/scale.zh-CN.md")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || *seconds < 1 || *rounds < 1 {
		return errors.New("want -seconds and -rounds of 1 or more, and no other arguments")
	}
	root, err := rig.Root(ctx)
	if err != nil {
		return err
	}
	docs := filepath.Join(root, "docs")
	if *anew {
		c, err := measure(ctx, *seconds, *rounds)
		if err != nil {
			return err
		}
		if err := c.save(filepath.Join(docs, kept)); err != nil {
			return err
		}
		rig.Progress("wrote docs/%s", kept)
	}
	c, err := load(filepath.Join(docs, kept))
	if err != nil {
		return err
	}
	if *memory && !*anew {
		if err := c.weigh(ctx); err != nil {
			return err
		}
		if err := c.save(filepath.Join(docs, kept)); err != nil {
			return err
		}
	}
	found := simulateAll(c)
	for _, part := range parts() {
		fmt.Printf("%s\n", part.table(c, found, en))
	}
	if *write {
		return found.write(c, docs)
	}
	return nil
}

// kept is the file of the constants, in docs.
const kept = "scale.json"

func (c *constants) save(file string) error {
	data, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

func load(file string) (c *constants, err error) {
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err == nil && (len(c.Stores) != 2 || c.CPUs < 1) {
		err = errors.New("it has no constants of two stores")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s (-measure makes it): %w", file, err)
	}
	return c, nil
}

// pages maps each page of docs to its language and its picture.
func pages() []page {
	return []page{{"scale.md", "scale.svg", en}, {"scale.zh-CN.md", "scale.zh-CN.svg", zh}}
}

type page struct {
	name, picture string
	language      language
}

func (f *findings) write(c *constants, docs string) error {
	for _, p := range pages() {
		file := filepath.Join(docs, p.name)
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		made, err := fill(string(text), c, f, p.language)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(file, []byte(made), 0o644); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(docs, p.picture), []byte(f.picture(c, p.language)), 0o644); err != nil {
			return err
		}
		rig.Progress("wrote docs/%s and docs/%s", p.name, p.picture)
	}
	return nil
}

// fill puts the tables into a page, each between its marks.
func fill(text string, c *constants, f *findings, l language) (string, error) {
	for _, part := range parts() {
		var err error
		if text, err = rig.Fill(text, part.mark, part.table(c, f, l)); err != nil {
			return "", err
		}
	}
	return text, nil
}
