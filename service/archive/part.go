package archive

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"example.com/stock/service/order"
)

// A part is a file of lines of JSON, compressed with gzip:
//
//	{"archive":{"version":1,"store":"mysql","part":7,"previous":"4f0c...","before":"2026-01-01T00:00:00Z"}}
//	{"movement":{...}}      the movements of a SKU in order, without a gap
//	{"carry":{"first":1,"carried":{...}}}   after these movements: their sum, which replaces them in the ledger
//	{"order":{...}}
//	{"reservation":{...}}
//	{"end":{"movements":1000,"orders":0,"reservations":0,"sha256":"9b2e..."}}
//
// sha256 is the digest of all lines before it, and previous is the sha256 of the part before. So the last digest, which
// the store keeps, proves that all parts are unchanged. Like all gzip files, parts can be joined with cat.
const version = 1

// Contents are the contents of a part.
type Contents struct {
	order.Taking
	Movements []order.Movement // those of the first Carry, then those of the second, and so on
	Store     string           // its name
	File      string           // the file that the part was read from
}

// A line has exactly one of these fields.
type line struct {
	Archive     *head              `json:"archive,omitempty"`
	Movement    *order.Movement    `json:"movement,omitempty"`
	Carry       *carryLine         `json:"carry,omitempty"`
	Order       *order.Order       `json:"order,omitempty"`
	Reservation *order.Reservation `json:"reservation,omitempty"`
	End         *tail              `json:"end,omitempty"`
}

type head struct {
	Version  int       `json:"version"`
	Store    string    `json:"store"`
	Part     uint64    `json:"part"`
	Previous string    `json:"previous,omitempty"`
	Before   time.Time `json:"before"`
}

type carryLine struct {
	First   uint64         `json:"first"`
	Carried order.Movement `json:"carried"`
}

type tail struct {
	Movements    int    `json:"movements"`
	Orders       int    `json:"orders"`
	Reservations int    `json:"reservations"`
	SHA256       string `json:"sha256"`
}

// encode returns the lines of c, and sets the counts and the digest of its Part.
func (c *Contents) encode() []byte {
	var text bytes.Buffer
	put := func(l line) {
		one, _ := json.Marshal(l) // numbers, texts and times: it cannot fail
		text.Write(append(one, '\n'))
	}
	p := &c.Part
	put(line{Archive: &head{version, c.Store, p.Number, p.Previous, p.Before}})
	rest := c.Movements
	for _, carry := range c.Carries {
		for n := carry.Number - carry.First + 1; n > 0; n-- {
			put(line{Movement: &rest[0]})
			rest = rest[1:]
		}
		put(line{Carry: &carryLine{carry.First, carry.Movement}})
	}
	for i := range c.Orders {
		put(line{Order: &c.Orders[i]})
	}
	for i := range c.Reservations {
		put(line{Reservation: &c.Reservations[i]})
	}
	p.Movements, p.Orders, p.Reservations = len(c.Movements), len(c.Orders), len(c.Reservations)
	sum := sha256.Sum256(text.Bytes())
	p.Digest = hex.EncodeToString(sum[:])
	put(line{End: &tail{p.Movements, p.Orders, p.Reservations, p.Digest}})
	return text.Bytes()
}

// ErrDamaged means that a file differs from what was written.
var ErrDamaged = errors.New("the archive is damaged")

// Read calls do for each part of a file until do returns an error.
func Read(name string, do func(Contents) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(bufio.NewReader(file))
	if err != nil {
		return fmt.Errorf("%s: %w: %w", name, ErrDamaged, err)
	}
	lines := bufio.NewReader(unzipped)
	for {
		c, err := readPart(lines)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: part %d: %w: %w", name, c.Part.Number, ErrDamaged, err)
		}
		c.File = name
		if err := do(c); err != nil {
			return err
		}
	}
}

// readPart reads the next part. It returns io.EOF after the last part.
func readPart(lines *bufio.Reader) (c Contents, err error) {
	sum := sha256.New()
	for first := true; ; first = false {
		text, err := lines.ReadBytes('\n')
		if err == io.EOF && !(first && len(text) == 0) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return c, err
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return c, err
		}
		switch {
		case first != (l.Archive != nil):
			return c, errors.New("a part must begin with its head, and have no other")
		case first && l.Archive.Version != version:
			return c, fmt.Errorf("it is of version %d; this program reads %d", l.Archive.Version, version)
		case first:
			c.Store = l.Archive.Store
			c.Part = order.Part{Number: l.Archive.Part, Previous: l.Archive.Previous, Before: l.Archive.Before}
		case l.Movement != nil:
			c.Movements = append(c.Movements, *l.Movement)
		case l.Carry != nil:
			c.Carries = append(c.Carries, order.Carry{First: l.Carry.First, Movement: l.Carry.Carried})
		case l.Order != nil:
			c.Orders = append(c.Orders, *l.Order)
		case l.Reservation != nil:
			c.Reservations = append(c.Reservations, *l.Reservation)
		case l.End != nil:
			p := &c.Part
			p.Movements, p.Orders, p.Reservations = len(c.Movements), len(c.Orders), len(c.Reservations)
			p.Digest = hex.EncodeToString(sum.Sum(nil))
			if *l.End != (tail{p.Movements, p.Orders, p.Reservations, p.Digest}) {
				return c, errors.New("its digest or its counts are wrong")
			}
			return c, nil
		default:
			return c, errors.New("it has a line of an unknown kind")
		}
		sum.Write(text)
	}
}

// FileName returns the name of the file of a part.
func FileName(store string, part uint64) string { return fmt.Sprintf("%s-%06d.jsonl.gz", store, part) }

// write creates the file name with text, compressed. If it returns nil, the file is complete and survives a power cut.
// If the file exists, write fails with os.ErrExist and does not change the file, because another archiver may rely on
// it.
func write(name string, text []byte) (err error) {
	dir := filepath.Dir(name)
	file, err := os.CreateTemp(dir, filepath.Base(name)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	zipped := gzip.NewWriter(file)
	_, err = zipped.Write(text)
	if err = errors.Join(err, zipped.Close(), file.Sync(), file.Chmod(0o640), file.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), name); err != nil { // a rename would replace a file
		return err
	}
	return syncDir(dir)
}

// lockFolder opens the folder and locks it, or fails with ErrRunning. The lock ends when the folder is closed or the
// process ends. Without the lock two archivers could write the same part: the first would remove the records that are
// in the second's file, and the second would remove the file because its own step was refused. Computers that share the
// folder over a network may not see each other's locks.
func lockFolder(dir string) (*os.File, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err = syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		return folder, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrRunning
	}
	return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), folder.Close())
}

func syncDir(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
