package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// A fake grants the key "free", refuses "taken", and fails for every other key.
type fake struct{}

func (fake) acquire(_ context.Context, key string, _ time.Duration) (string, bool, error) {
	switch key {
	case "free":
		return "t", false, nil
	case "taken":
		return "", true, nil
	}
	return "", false, errors.New("two\nlines")
}

func (fake) release(_ context.Context, token string) error {
	if token != "t" {
		return errors.New("not held")
	}
	return nil
}

// Each request gets one line.
func TestServe(t *testing.T) {
	var out strings.Builder
	in := "acquire free 10\nacquire taken 10\nacquire odd 10\nrelease free t\nrelease free u\nhello\n"
	serve(strings.NewReader(in), &out, fake{}, time.Second)
	want := "ok t\nbusy\nerror two; lines\nok\nerror not held\nerror a request has three words\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
