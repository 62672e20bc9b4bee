package loadtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine is the longest line of a history, in bytes. Ours have a few hundred.
const maxLine = 1 << 20

// ErrCut: the last line of a history is cut off, as when its writer was killed. The History that comes with it holds all lines before.
var ErrCut = errors.New("the last line is cut off")

// ReadHistory reads a history. It is strict: a line with an unknown key, an impossible value or in the wrong place is an error that
// names the line. Only a last line without its newline that cannot be read is forgiven: it is left out, and the error matches ErrCut.
func ReadHistory(r io.Reader) (*History, error) {
	in := bufio.NewReaderSize(r, maxLine)
	h := new(History)
	for number := 1; ; number++ {
		text, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("line %d: is longer than %d bytes", number, maxLine)
		case err != nil && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("line %d: %w", number, err)
		case err != nil && len(text) == 0 && number == 1:
			return nil, errors.New("line 1: the history is empty")
		case err != nil && len(text) == 0:
			return h, nil
		}
		last := err != nil
		if number == 1 {
			err = h.readHeader(text)
		} else {
			err = h.readLine(text)
		}
		switch {
		case err != nil && last && number > 1:
			return h, fmt.Errorf("line %d: %w after %d bytes: %w", number, ErrCut, len(text), err)
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", number, err)
		case last:
			return h, nil
		}
	}
}

func (h *History) readHeader(text []byte) error {
	// Another format or version has other keys: say that, and not which key is unknown.
	var kind struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(text, &kind); err != nil || kind.Format != Format {
		return fmt.Errorf(`a history begins with {"format":%q,"version":%d`, Format, Version)
	}
	if kind.Version != Version {
		return fmt.Errorf("this is version %d of the format, and only version %d can be read here: use the stock that wrote it, or run the load again",
			kind.Version, Version)
	}
	return strict(text, &h.Header)
}

func (h *History) readLine(text []byte) error {
	if h.End != nil {
		return errors.New("nothing can follow the end")
	}
	var l line
	if err := strict(text, &l); err != nil {
		return err
	}
	kinds := 0
	for _, present := range []bool{l.Record != nil, l.Order != nil, l.End != nil} {
		if present {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return errors.New("must be a request, an order or the end")
	case l.Order != nil:
		if l.Order.OrderID == "" || l.Order.Quantity < 1 {
			return errors.New("an order must have an order_id, and a quantity of 1 or more")
		}
		h.Orders = append(h.Orders, *l.Order)
	case l.End != nil:
		h.End = l.End
	case len(h.Orders) > 0:
		return errors.New("a request cannot follow an order")
	default:
		err := l.Record.check()
		switch {
		case err != nil:
			return err
		case !l.Record.Warm:
			h.Records = append(h.Records, *l.Record)
		case len(h.Records) > 0:
			return errors.New("a request of the warm-up cannot follow one of the run")
		default:
			h.Warm = append(h.Warm, *l.Record)
		}
	}
	return nil
}

// strict decodes one JSON value, all of text, without unknown keys.
func strict(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the JSON value")
	}
	return nil
}
